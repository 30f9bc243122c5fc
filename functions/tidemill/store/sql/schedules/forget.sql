-- Removes all but the latest events of schedules. Parameters: ids uuid[]; keep integer. Rows: count.
with gone as (
    delete from tidemill.schedule_events e
    using unnest(%(ids)s::uuid[]) as s (id)
    cross join lateral (
        select o.id from tidemill.schedule_events o where o.scheduled_job_id = s.id order by o.id desc offset %(keep)s::integer limit 1) as last
    where e.scheduled_job_id = s.id and e.id <= last.id
    returning 1
)
select count(*) from gone
