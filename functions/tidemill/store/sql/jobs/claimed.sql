-- Whole jobs of leases that were just taken. Parameters: job_ids uuid[]; lease_tokens uuid[] (of the same places).
-- Rows: the columns of claim.sql, one per lease that is still there, in the order given. Locks: none.
select l.job_id::text, l.lease_token::text, j.job_type::text, q.name::text as queue, j.payload::text, j.schema_version, j.headers::text,
       l.attempt,
       coalesce(j.max_attempts_override,
           case when jsonb_typeof(j.retry_policy -> 'max_attempts') = 'number' then (j.retry_policy ->> 'max_attempts')::integer end,
           p.max_attempts, 5) as max_attempts,
       l.fence, l.lease_expires_at, j.timeout_ms, j.checkpoint::text, j.traceparent, j.tracestate,
       q.id::text, l.priority, l.run_at, 1::bigint as place
from unnest(%(job_ids)s::uuid[], %(lease_tokens)s::uuid[]) with ordinality as g (job_id, lease_token, pos)
cross join lateral (select i.* from tidemill.job_leases i where i.job_id = g.job_id and i.lease_token = g.lease_token limit 1) l
cross join lateral (select b.* from tidemill.jobs b where b.id = l.job_id limit 1) j
join tidemill.queues q on q.id = l.queue_id
left join tidemill.retry_policies p on p.id = coalesce(j.retry_policy_id, q.default_retry_policy_id)
order by g.pos
limit 500
