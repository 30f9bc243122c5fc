-- Ask a leased job to stop: its worker learns it from the next heartbeat. The first request's time stays.
-- Parameters: project_id uuid; job_id uuid; now timestamptz or null. Rows: one if the job is leased. Locks: lease.
update tidemill.job_leases l
set cancel_requested_at = coalesce(l.cancel_requested_at, %(now)s::timestamptz, statement_timestamp())
from tidemill.jobs j
where l.job_id = %(job_id)s::uuid and j.id = l.job_id and j.project_id = %(project_id)s::uuid
returning l.job_id::text, l.lease_token::text
