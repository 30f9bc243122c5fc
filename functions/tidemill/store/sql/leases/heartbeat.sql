-- Extend leases by their own length from now; never shorten one. A lease that somebody is settling right now is skipped, not lost.
-- Parameters: job_ids uuid[], tokens uuid[] of one length; now timestamptz or null.
-- Rows: one per given lease that is ours: job_id, lease_expires_at, cancel_requested. Locks: leases (no key update, skip locked), so it
--   never waits, and a report that holds the lease (key share) does not keep it out.
with given as materialized (
    select g.job_id, g.token from unnest(%(job_ids)s::uuid[], %(tokens)s::uuid[]) as g (job_id, token)
), mine as materialized (
    select l.job_id, l.lease_expires_at, l.cancel_requested_at
    from given g join tidemill.job_leases l on l.job_id = g.job_id and l.lease_token = g.token
), free as (
    select l.job_id
    from given g join tidemill.job_leases l on l.job_id = g.job_id and l.lease_token = g.token
    order by l.job_id
    for no key update of l skip locked
), extended as (
    update tidemill.job_leases l
    set lease_expires_at = greatest(l.lease_expires_at,
        coalesce(%(now)s::timestamptz, statement_timestamp()) + make_interval(secs => l.lease_ms / 1000.0))
    from free f
    where l.job_id = f.job_id
    returning l.job_id, l.lease_expires_at
)
select m.job_id::text, coalesce(x.lease_expires_at, m.lease_expires_at) as lease_expires_at, m.cancel_requested_at is not null as cancel_requested
from mine m left join extended x on x.job_id = m.job_id
