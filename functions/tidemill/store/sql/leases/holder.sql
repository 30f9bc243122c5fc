-- Locks a lease for the rest of the transaction, so that what is written with it stands or falls with it.
-- Parameters: project_id uuid; job_id uuid; lease_token uuid. Rows: the job's traceparent, correlation if the lease is ours. Locks: lease (key share).
select j.traceparent, j.tracestate
from tidemill.job_leases l
join tidemill.jobs j on j.id = l.job_id
where l.job_id = %(job_id)s::uuid and l.lease_token = %(lease_token)s::uuid and j.project_id = %(project_id)s::uuid
for key share of l
