-- Names of active schedules that a program declared once and declares no longer. Parameters: project_id uuid; declared_by text; names text[]; limit integer.
select s.name::text
from tidemill.scheduled_jobs s
where s.project_id = %(project_id)s::uuid and s.declared_by = %(declared_by)s and s.is_active and not (s.name = any(%(names)s::text[]))
order by s.name
limit %(limit)s::integer
