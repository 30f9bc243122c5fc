-- Moves schedules on after a pass. Parameters: moves text: JSON array of {id, next_run_at, last_run_at (null: keep), error, release}.
-- Rows: count. Locks: schedules (held already).
with moved as (
    update tidemill.scheduled_jobs s
    set next_run_at = m.next_run_at, last_run_at = coalesce(m.last_run_at, s.last_run_at), error = m.error,
        zone_data_release = coalesce(m.release, s.zone_data_release)
    from jsonb_to_recordset(%(moves)s::jsonb) as m (id uuid, next_run_at timestamptz, last_run_at timestamptz, error text, release text)
    where s.id = m.id
    returning 1
)
select count(*) from moved
