-- The last time a job died. Parameters: project_id uuid; job_id uuid. Rows: at most one id; whether it is resolved, and how. Locks: none.
select d.id::text, d.resolved, d.resolution_action
from tidemill.dead_letter_queue d
where d.job_id = %(job_id)s::uuid and d.project_id = %(project_id)s::uuid
order by d.moved_at desc, d.id desc
limit 1
