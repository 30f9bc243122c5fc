-- A job's state in a project. Parameters: project_id uuid; job_id uuid. Rows: status, lease token if leased.
select s.status::text, l.lease_token::text
from tidemill.job_states s
left join tidemill.job_leases l on l.job_id = s.id
where s.id = %(job_id)s::uuid and s.project_id = %(project_id)s::uuid
