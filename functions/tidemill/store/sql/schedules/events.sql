-- A schedule's latest events, newest first. Parameters: id uuid; limit integer. Rows: at, kind, nominal_at, reason, job_id.
select e.at, e.kind, e.nominal_at, e.reason, e.job_id::text
from tidemill.schedule_events e
where e.scheduled_job_id = %(id)s::uuid
order by e.id desc
limit %(limit)s::integer
