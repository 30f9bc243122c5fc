-- What decide() needs to know about leases that are about to be settled. Parameters: job_ids uuid[], tokens uuid[] of one length.
-- Rows: job_id, token, attempt, max_attempts, cancel_requested, crash_count, then the retry policy's columns and the job's inline policy.
-- Locks: leases, in job_id order.
select l.job_id::text, l.lease_token::text, l.attempt, j.max_attempts_override, l.cancel_requested_at is not null, j.crash_count,
       p.strategy::text, p.base_delay_ms, p.multiplier, p.max_delay_ms, p.max_attempts, p.jitter, j.retry_policy
from unnest(%(job_ids)s::uuid[], %(tokens)s::uuid[]) as g (job_id, token)
join tidemill.job_leases l on l.job_id = g.job_id and l.lease_token = g.token
join tidemill.jobs j on j.id = l.job_id
join tidemill.queues q on q.id = l.queue_id
left join tidemill.retry_policies p on p.id = coalesce(j.retry_policy_id, q.default_retry_policy_id)
order by l.job_id
for update of l
