-- Leases a worker holds, for its deregistration. Parameters: project_id uuid; worker_id uuid; limit integer. Rows: job_id, token. Locks: none.
select l.job_id::text, l.lease_token::text
from tidemill.job_leases l
join tidemill.jobs j on j.id = l.job_id
where l.worker_id = %(worker_id)s::uuid and j.project_id = %(project_id)s::uuid
order by l.job_id
limit %(limit)s::integer
