-- Promote pending jobs, as promote.sql does one. Parameters: project_id uuid; job_ids uuid[] (sorted); now timestamptz or null.
-- Rows: job_id, 'moved', 0 of each that was pending and that nobody else held. Locks: jobs (by id, skip locked) -> entries (insert).
with found as materialized (
    select j.id from tidemill.jobs j
    where j.id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid and j.phase = 'waiting'
    order by j.id for update of j skip locked
), moved as (
    update tidemill.jobs j
    set phase = 'moving', is_held = false, pending_parents = 0, run_at = greatest(j.run_at, coalesce(%(now)s::timestamptz, statement_timestamp())), updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    from found f
    where j.id = f.id and j.phase = 'waiting'
    returning j.*, tidemill.job_traits(j) as traits
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at)
    select distinct on (m.queue_id, m.lane, m.priority) m.queue_id, m.id, m.run_at from moved m where m.lane <> 0
    order by m.queue_id, m.lane, m.priority, m.run_at
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select m.queue_id, m.priority, m.run_at, m.id, m.attempt_count, m.fence, m.traits, nullif(m.weight, 1), m.lane
    from moved m
), levels as (
    insert into tidemill.queue_levels (queue_id, priority)
    select distinct m.queue_id, m.priority from moved m
    where not exists (select 1 from tidemill.queue_levels l where l.queue_id = m.queue_id and l.priority = m.priority)
)
select m.id::text, 'moved' as outcome, 0::smallint as traits from moved m
