-- Sets a last run that lies ahead back to the last one that came. Parameters: ids uuid[]; now timestamptz. Rows: count. Locks: schedules (held already).
with moved as (
    update tidemill.scheduled_jobs s
    set last_run_at = (
        select max(e.nominal_at) from tidemill.schedule_events e
        where e.scheduled_job_id = s.id and e.kind = 'fired' and e.reason is distinct from 'by hand' and e.nominal_at <= %(now)s::timestamptz)
    where s.id = any(%(ids)s::uuid[]) and s.last_run_at > %(now)s::timestamptz
    returning 1
)
select count(*) from moved
