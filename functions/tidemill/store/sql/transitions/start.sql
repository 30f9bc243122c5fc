-- Start: a claimed job becomes running; starting a running one again changes nothing.
-- Parameters: job_id uuid; lease_token uuid; now timestamptz or null. Rows: one if the lease is ours. Locks: lease -> unique_holds.
with begun as (
    update tidemill.job_leases l
    set started_at = coalesce(l.started_at, %(now)s::timestamptz, statement_timestamp())
    where l.job_id = %(job_id)s::uuid and l.lease_token = %(lease_token)s::uuid
    returning l.job_id, l.traits, l.started_at, l.lease_expires_at
), freed as (
    delete from tidemill.unique_holds h
    using begun b
    where b.traits & 2 <> 0 and h.job_id = b.job_id and h.kind = 'unique'
)
select b.started_at, b.lease_expires_at from begun b
