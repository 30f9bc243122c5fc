-- Claim many from one gated queue: leases only, for jobs/claimed.sql to read whole once the queue is free again for others. Parameters: queue_id,
--   worker_id uuid; limit integer; job_types text[] or null; lease_ms bigint or null; start boolean; wait_ms integer (how long to wait in line where
--   another claim is at the queue); now timestamptz or null.
-- Rows: one: job_ids, lease_tokens (literals of uuid[], in the order in which they are served; null if there are none), is_met (whether another claim is at
--   the queue).
select (array_agg(c.job_id) filter (where c.job_id is not null))::text as job_ids,
       (array_agg(c.lease_token) filter (where c.job_id is not null))::text as lease_tokens,
       coalesce(bool_or(c.job_id is null), false) as is_met
from (select tidemill.await_turn(%(queue_id)s::uuid, %(wait_ms)s::integer) as is_ours offset 0) t
cross join lateral tidemill.claim_gated(
    %(queue_id)s::uuid, %(worker_id)s::uuid, case when t.is_ours then %(limit)s::integer else 0 end, %(job_types)s::text[], %(lease_ms)s::bigint,
    %(start)s::boolean, %(now)s::timestamptz) as c
