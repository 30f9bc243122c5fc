-- Progress of a leased job. Parameters: job_id uuid; lease_token uuid; current bigint; total bigint or null; message text or null; now timestamptz or null.
-- Rows: one if the lease is ours. Locks: lease (key share, so that heartbeats go on) -> jobs.
with lease as (
    select l.job_id from tidemill.job_leases l
    where l.job_id = %(job_id)s::uuid and l.lease_token = %(lease_token)s::uuid for key share
)
update tidemill.jobs j
set progress_current = %(current)s::bigint, progress_total = %(total)s::bigint, progress_message = %(message)s::text,
    updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
from lease where j.id = lease.job_id
returning j.id::text
