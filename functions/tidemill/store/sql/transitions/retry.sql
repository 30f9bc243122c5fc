-- Retry a dead job from its first attempt (fence goes on rising), closing its open dead-letter rows.
-- Parameters: project_id uuid; job_id uuid; by uuid or null; now timestamptz or null. Rows: one if it was dead.
-- The caller holds the unique key already. Locks: jobs -> entries (insert) -> dead_letter_queue; nobody else can hold an entry of a dead job.
with moved as (
    update tidemill.jobs j
    set phase = 'moving', attempt_count = 0, crash_count = 0, final_reason = null, finalized_at = null, retention_until = null,
        run_at = coalesce(%(now)s::timestamptz, statement_timestamp()), updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid and j.phase = 'dead_letter'
    returning j.*, tidemill.job_traits(j) as traits
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at) select m.queue_id, m.id, m.run_at from moved m where m.lane <> 0
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select m.queue_id, m.priority, m.run_at, m.id, 0, m.fence, m.traits, nullif(m.weight, 1), m.lane
    from moved m
), levels as (
    insert into tidemill.queue_levels (queue_id, priority) select m.queue_id, m.priority from moved m
    where not exists (select 1 from tidemill.queue_levels l where l.queue_id = m.queue_id and l.priority = m.priority)
), resolved as (
    update tidemill.dead_letter_queue d
    set resolved = true, resolved_at = m.updated_at, resolved_by = %(by)s::uuid, resolution_action = 'retry'
    from moved m where d.job_id = m.id and not d.resolved
)
select m.id::text, m.traits from moved m
