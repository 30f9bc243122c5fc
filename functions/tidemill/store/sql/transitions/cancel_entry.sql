-- Cancel a scheduled or queued job. Parameters: project_id uuid; job_id uuid; reason text; now timestamptz or null.
-- Rows: one if the entry was there. Locks: entry -> jobs -> unique_holds. Waits for a claim in flight, then finds the entry gone.
with gone as (
    delete from tidemill.job_queue_entries e
    using tidemill.jobs j
    where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid
      and e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
    returning e.job_id, e.queue_id, e.lane, e.priority, e.attempt_count, e.fence, e.traits, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), news as (
    -- it may have stood in front of a lane that waits for what it costs
    insert into tidemill.lane_news (queue_id, lane, priority, run_at) select g.queue_id, g.lane, g.priority, g.now from gone g where g.lane <> 0
), moved as (
    update tidemill.jobs j
    set phase = 'cancelled', attempt_count = g.attempt_count, fence = g.fence, final_reason = %(reason)s::text, finalized_at = g.now,
        retention_until = greatest(g.now + make_interval(secs => coalesce(j.retention_ms, q.retention_cancelled_ms) / 1000.0), j.unique_until),
        updated_at = g.now
    from gone g join tidemill.queues q on q.id = g.queue_id
    where j.id = g.job_id
), freed as (
    delete from tidemill.unique_holds h using gone g
    where g.traits & 3 <> 0 and h.job_id = g.job_id and h.kind = 'unique'
)
select g.job_id::text, g.traits from gone g
