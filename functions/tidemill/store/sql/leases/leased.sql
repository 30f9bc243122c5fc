-- What decide() needs to know about leases that are about to be settled. Parameters: job_ids uuid[], tokens uuid[] of one length.
-- Rows: job_id, token, attempt, max_attempts, cancel_requested, crash_count, then the retry policy's columns and the job's inline policy.
-- Locks: leases, in job_id order -> unique_holds of those that may free a key, in key order (as a bulk enqueue takes them).
with ours as materialized (
    select l.job_id, l.lease_token, l.attempt, l.queue_id, l.cancel_requested_at, l.traits
    from unnest(%(job_ids)s::uuid[], %(tokens)s::uuid[]) as g (job_id, token)
    join tidemill.job_leases l on l.job_id = g.job_id and l.lease_token = g.token and l.job_id = any(%(job_ids)s::uuid[])
    order by l.job_id
    for update of l
), keys as materialized (
    select 1
    from tidemill.unique_holds u
    where u.kind = 'unique' and u.job_id = any(array(select o.job_id from ours o where o.traits & 3 <> 0))
    order by u.key
    for update of u
)
select o.job_id::text, o.lease_token::text, o.attempt, j.max_attempts_override, o.cancel_requested_at is not null, j.crash_count,
       p.strategy::text, p.base_delay_ms, p.multiplier, p.max_delay_ms, p.max_attempts, p.jitter, j.retry_policy, j.rate_class is not null
from ours o
cross join lateral (select * from tidemill.jobs i where i.id = o.job_id limit 1) j
join tidemill.queues q on q.id = o.queue_id
left join tidemill.retry_policies p on p.id = coalesce(j.retry_policy_id, q.default_retry_policy_id)
where (select count(*) from keys) >= 0
order by o.job_id
