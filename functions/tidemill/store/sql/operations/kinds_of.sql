-- Counts given jobs by kind. Parameters: project_id uuid; job_ids uuid[]. Rows: state, job_type, error_class, count, one id of each kind. Locks: none.
select s.status::text, s.job_type::text, s.error_class, count(*) as n, (array_agg(s.id::text))[1] as example
from tidemill.job_states s
where s.id = any(%(job_ids)s::uuid[]) and s.project_id = %(project_id)s::uuid
group by 1, 2, 3
