-- Adds events. Parameters: events text: JSON array of {schedule_id, nominal_at, kind, reason, job_id}; now timestamptz or null. Rows: count.
with noted as (
    insert into tidemill.schedule_events (scheduled_job_id, nominal_at, kind, reason, job_id, at)
    select e.schedule_id, e.nominal_at, e.kind, left(e.reason, 500), e.job_id, coalesce(%(now)s::timestamptz, clock_timestamp())
    from rows from (jsonb_to_recordset(%(events)s::jsonb) as (schedule_id uuid, nominal_at timestamptz, kind text, reason text, job_id uuid))
        with ordinality as e (schedule_id, nominal_at, kind, reason, job_id, ord)
    order by e.ord
    returning 1
)
select count(*) from noted
