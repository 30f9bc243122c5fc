-- Cancel a pending or quarantined job. Parameters: project_id uuid; job_id uuid; phase text (waiting | quarantined); reason text;
--   now timestamptz or null. Rows: one if it was in that phase. Locks: jobs -> unique_holds.
with moved as (
    update tidemill.jobs j
    set phase = 'cancelled', is_held = false, pending_parents = 0, final_reason = %(reason)s::text,
        finalized_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
        retention_until = greatest(coalesce(%(now)s::timestamptz, statement_timestamp())
            + make_interval(secs => coalesce(j.retention_ms, q.retention_cancelled_ms) / 1000.0), j.unique_until),
        updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    from tidemill.queues q
    where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid and j.phase = %(phase)s::tidemill.job_phase and q.id = j.queue_id
    returning j.id, j.unique_window, tidemill.job_traits(j) as traits
), freed as (
    delete from tidemill.unique_holds h using moved m
    where m.unique_window in ('pending', 'running') and h.job_id = m.id and h.kind = 'unique'
)
select m.id::text, m.traits from moved m
