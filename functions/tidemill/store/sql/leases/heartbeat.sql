-- Extend leases by their own length from now; never shorten one. A lease that somebody is settling right now is skipped, not lost.
-- Parameters: job_ids uuid[], tokens uuid[] of one length, sorted by job_id, each job once; now timestamptz or null.
-- Rows: one per given lease that is ours: job_id, lease_expires_at, cancel_requested. Locks: leases (no key update, skip locked), so it
--   never waits, and a report that holds the lease (key share) does not keep it out.
with mine as materialized (
    select l.job_id, l.lease_expires_at, l.cancel_requested_at
    from tidemill.job_leases l
    where l.job_id = any(%(job_ids)s::uuid[])
      and l.lease_token = (%(tokens)s::uuid[])[width_bucket(l.job_id, %(job_ids)s::uuid[])]
), extended as (
    update tidemill.job_leases l
    set lease_expires_at = greatest(l.lease_expires_at,
        coalesce(%(now)s::timestamptz, statement_timestamp()) + make_interval(secs => l.lease_ms / 1000.0))
    where l.job_id = any(array(
        select f.job_id from tidemill.job_leases f
        where f.job_id = any(%(job_ids)s::uuid[])
          and f.lease_token = (%(tokens)s::uuid[])[width_bucket(f.job_id, %(job_ids)s::uuid[])]
        order by f.job_id
        for no key update skip locked))
    returning l.job_id, l.lease_expires_at, l.cancel_requested_at
)
select x.job_id::text, x.lease_expires_at, x.cancel_requested_at is not null as cancel_requested from extended x
union all
select m.job_id::text, m.lease_expires_at, m.cancel_requested_at is not null from mine m
where m.job_id not in (select x.job_id from extended x)
