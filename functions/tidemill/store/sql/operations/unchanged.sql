-- Those of the jobs that have not changed since a moment. Parameters: project_id uuid; job_ids uuid[]; since timestamptz. Rows: ids in order. Locks: none.
select s.id::text
from tidemill.job_states s
where s.id = any(%(job_ids)s::uuid[]) and s.project_id = %(project_id)s::uuid and s.updated_at <= %(since)s::timestamptz
order by s.id
