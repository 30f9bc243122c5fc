-- Promote a pending job: queued, or scheduled where its run_at is still ahead. Parameters: project_id uuid; job_id uuid; now timestamptz or null.
-- Rows: one if it was pending. Locks: jobs -> entries (insert); nobody else can hold an entry of a pending job.
with moved as (
    update tidemill.jobs j
    set phase = 'moving', is_held = false, pending_parents = 0,
        run_at = greatest(j.run_at, coalesce(%(now)s::timestamptz, statement_timestamp())),
        updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid and j.phase = 'waiting'
    returning j.*, tidemill.job_traits(j) as traits
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at) select m.queue_id, m.id, m.run_at from moved m where m.lane <> 0
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select m.queue_id, m.priority, m.run_at, m.id, m.attempt_count, m.fence, m.traits, nullif(m.weight, 1), m.lane
    from moved m
), levels as (
    insert into tidemill.queue_levels (queue_id, priority) select m.queue_id, m.priority from moved m
    where not exists (select 1 from tidemill.queue_levels l where l.queue_id = m.queue_id and l.priority = m.priority)
)
select m.id::text from moved m
