-- Jobs of schedules that have not ended, among each one's latest 100. Parameters: ids uuid[]. Rows: schedule, job, in order of the ids.
select s.id::text, j.id::text
from unnest(%(ids)s::uuid[]) as s (id)
cross join lateral (
    select o.id from tidemill.jobs o where o.scheduled_job_id = s.id order by o.id desc limit 100
) o
join tidemill.job_states j on j.id = o.id
where j.status in ('pending', 'scheduled', 'queued', 'claimed', 'running')
order by s.id, j.id
