-- Make scheduled jobs due now, as move_entry.sql does one. Parameters: project_id uuid; job_ids uuid[] (sorted); since timestamptz (one that changed after it is no
--   member); now timestamptz or null. Rows: job_id, outcome (moved | later), 0 of each that was scheduled and that nobody else held.
-- Locks: entries (by job, skip locked) -> jobs.
with found as materialized (
    select e.queue_id, e.lane, e.priority, e.run_at, e.job_id, j.updated_at > %(since)s::timestamptz as is_later
    from tidemill.jobs j
    join tidemill.job_queue_entries e on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
    where j.id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid and e.run_at > coalesce(%(now)s::timestamptz, statement_timestamp())
    order by e.job_id for update of e skip locked
), gone as (
    delete from tidemill.job_queue_entries e
    using found f
    where not f.is_later and e.queue_id = f.queue_id and e.lane = f.lane and e.priority = f.priority and e.run_at = f.run_at and e.job_id = f.job_id
    returning e.*, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at)
    select distinct on (g.queue_id, g.lane, g.priority) g.queue_id, g.job_id, g.now from gone g where g.lane <> 0
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select g.queue_id, g.priority, g.now, g.job_id, g.attempt_count, g.fence, g.traits, g.weight, g.lane from gone g
), moved as (
    update tidemill.jobs j
    set run_at = g.now, updated_at = g.now
    from gone g
    where j.id = g.job_id
)
select f.job_id::text, case when f.is_later then 'later' else 'moved' end as outcome, 0::smallint as traits from found f
