-- Removes a schedule and its events; its jobs stay. Parameters: id uuid. Rows: its id. Locks: schedule (held already).
with events as (
    delete from tidemill.schedule_events e where e.scheduled_job_id = %(id)s::uuid
)
delete from tidemill.scheduled_jobs s where s.id = %(id)s::uuid returning s.id::text
