-- Leases that have run out, oldest first, for the reaper; the columns of leased.sql, then the instant up to which was looked.
-- Parameters: limit integer; since timestamptz or null (none that expired earlier is looked for); now timestamptz or null.
-- An `or`, which the planner folds as it sees the value (this is never prepared): a range of unknown width would look narrow enough to sort.
-- Rows: at least one; its job_id is null where nothing has run out. Locks: leases (skip locked), so any number of reapers may run.
with late as materialized (
    select l.job_id, l.lease_token, l.attempt, l.queue_id, l.cancel_requested_at, l.lease_expires_at
    from tidemill.job_leases l
    where l.lease_expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
      and (%(since)s::timestamptz is null or l.lease_expires_at >= %(since)s::timestamptz)
    order by l.lease_expires_at
    limit %(limit)s::integer
    for update skip locked
)
select l.job_id::text, l.lease_token::text, l.attempt, j.max_attempts_override, l.cancel_requested_at is not null, j.crash_count,
       p.strategy::text, p.base_delay_ms, p.multiplier, p.max_delay_ms, p.max_attempts, p.jitter, j.retry_policy, j.rate_class is not null,
       coalesce(%(now)s::timestamptz, statement_timestamp()) as looked_until
from (select 1) as always
left join late l on true
left join lateral (select * from tidemill.jobs i where i.id = l.job_id limit 1) j on true
left join tidemill.queues q on q.id = l.queue_id
left join tidemill.retry_policies p on p.id = coalesce(j.retry_policy_id, q.default_retry_policy_id)
order by l.lease_expires_at, l.job_id
