-- Output of a leased job so far. Parameters: job_id uuid; lease_token uuid; data text (JSON); now timestamptz or null.
-- Rows: one if the lease is ours. Locks: lease (key share) -> jobs.
with lease as (
    select l.job_id from tidemill.job_leases l
    where l.job_id = %(job_id)s::uuid and l.lease_token = %(lease_token)s::uuid for key share
)
update tidemill.jobs j
set output = %(data)s::jsonb, updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
from lease where j.id = lease.job_id
returning j.id::text
