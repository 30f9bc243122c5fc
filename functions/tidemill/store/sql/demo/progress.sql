-- How far a demo's jobs are. Parameters: project_id uuid; job_type text. Rows: one: completed, dead, leased. Walks all of them: for the demo's few thousand.
select count(*) filter (where s.status = 'completed'), count(*) filter (where s.status = 'dead_letter'),
       count(*) filter (where s.status in ('claimed', 'running'))
from tidemill.job_states s
where s.project_id = %(project_id)s::uuid and s.job_type = %(job_type)s::text
limit 1
