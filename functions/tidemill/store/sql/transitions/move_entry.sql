-- Move a scheduled or queued job to another time or priority. Parameters: project_id uuid; job_id uuid; run_at timestamptz or null (keep);
--   priority smallint or null (keep); only_ahead boolean (move only a job that is not due yet); now timestamptz or null.
-- A time behind the clock becomes now. Rows: one if the entry was there. Locks: entry -> jobs.
with gone as (
    delete from tidemill.job_queue_entries e
    using tidemill.jobs j
    where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid
      and e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
      and (not %(only_ahead)s::boolean or e.run_at > coalesce(%(now)s::timestamptz, statement_timestamp()))
    returning e.*, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), target as (
    select g.*, coalesce(%(priority)s::smallint, g.priority) as new_priority,
           case when %(run_at)s::timestamptz is null then g.run_at else greatest(%(run_at)s::timestamptz, g.now) end as new_run_at
    from gone g
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at) select t.queue_id, t.job_id, t.new_run_at from target t where t.lane <> 0
), left_behind as (
    -- it may have stood in front of a lane that waits for what it costs
    insert into tidemill.lane_news (queue_id, lane, priority, run_at)
    select t.queue_id, t.lane, t.priority, t.now from target t where t.lane <> 0 and (t.new_priority <> t.priority or t.new_run_at > t.run_at)
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select t.queue_id, t.new_priority, t.new_run_at, t.job_id, t.attempt_count, t.fence, t.traits, t.weight, t.lane
    from target t
), levels as (
    insert into tidemill.queue_levels (queue_id, priority) select t.queue_id, t.new_priority from target t
    where not exists (select 1 from tidemill.queue_levels l where l.queue_id = t.queue_id and l.priority = t.new_priority)
)
update tidemill.jobs j
set run_at = t.new_run_at, priority = t.new_priority, updated_at = t.now
from target t
where j.id = t.job_id
returning j.id::text
