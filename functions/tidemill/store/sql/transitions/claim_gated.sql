-- Claim from one gated queue, through every gate (tidemill.claim_gated). Parameters: queue_id, worker_id uuid; limit integer;
--   job_types text[] or null; lease_ms bigint or null; start boolean; wait_ms integer (how long to wait in line where another claim is at
--   the queue); now timestamptz or null. For many: claim_gated_many.sql.
-- (The jobs are read by a lateral limit 1: an index look-up per row, whatever the planner expects of the function.)
-- Rows: the columns of claim.sql; one with job_id null if another claim is at the queue; job_type null where the job was committed after this
--   statement's snapshot and before the function's: jobs/claimed.sql reads it whole.
select c.job_id::text, c.lease_token::text, j.job_type::text, q.name::text as queue, j.payload::text, j.schema_version, j.headers::text,
       c.attempt,
       coalesce(j.max_attempts_override,
           case when jsonb_typeof(j.retry_policy -> 'max_attempts') = 'number' then (j.retry_policy ->> 'max_attempts')::integer end,
           p.max_attempts, 5) as max_attempts,
       c.fence, c.lease_expires_at, j.timeout_ms, j.checkpoint::text, j.traceparent, j.tracestate,
       q.id::text, c.priority, c.run_at, 1::bigint as place
from (select tidemill.await_turn(%(queue_id)s::uuid, %(wait_ms)s::integer) as is_ours offset 0) t
cross join lateral tidemill.claim_gated(
    %(queue_id)s::uuid, %(worker_id)s::uuid, case when t.is_ours then %(limit)s::integer else 0 end, %(job_types)s::text[], %(lease_ms)s::bigint,
    %(start)s::boolean, %(now)s::timestamptz) as c
left join lateral (select b.* from tidemill.jobs b where b.id = c.job_id limit 1) j on true
join tidemill.queues q on q.id = %(queue_id)s::uuid
left join tidemill.retry_policies p on p.id = coalesce(j.retry_policy_id, q.default_retry_policy_id)
