-- Cancel scheduled and queued jobs, as cancel_entry.sql does one, for an operation that remembers where each was.
-- Parameters: project_id, operation_id uuid; job_ids uuid[] (sorted); since timestamptz; wide boolean (the filter holds every live state: only a job that was
--   retried after `since` is no member; else none that changed after it, or came due where due_since is true); due_since boolean; reason text; now timestamptz or null.
-- Rows: job_id, outcome (moved | later), traits of each whose entry was there and that nobody else held.
-- Locks: entries (by job, skip locked) -> jobs -> unique_holds (by key).
with found as materialized (
    select e.queue_id, e.lane, e.priority, e.run_at, e.job_id, case when %(wide)s::boolean
                then j.updated_at > %(since)s::timestamptz and e.fence > 0 and exists (
                    select 1 from tidemill.dead_letter_queue d
                    where d.job_id = j.id and d.resolution_action = 'retry' and d.resolved_at > %(since)s::timestamptz)
                else j.updated_at > %(since)s::timestamptz or (%(due_since)s::boolean and e.run_at > %(since)s::timestamptz and e.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp())) end as is_later
    from tidemill.jobs j
    join tidemill.job_queue_entries e on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
    where j.id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid
    order by e.job_id for update of e skip locked
), gone as (
    delete from tidemill.job_queue_entries e
    using found f
    where not f.is_later and e.queue_id = f.queue_id and e.lane = f.lane and e.priority = f.priority and e.run_at = f.run_at and e.job_id = f.job_id
    returning e.job_id, e.queue_id, e.lane, e.priority, e.attempt_count, e.fence, e.traits, e.run_at, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), news as (
    -- one may have stood in front of a lane that waits for what it costs
    insert into tidemill.lane_news (queue_id, lane, priority, run_at)
    select distinct g.queue_id, g.lane, g.priority, g.now from gone g where g.lane <> 0
), moved as (
    update tidemill.jobs j
    set phase = 'cancelled', attempt_count = g.attempt_count, fence = g.fence, final_reason = %(reason)s::text, finalized_at = g.now,
        retention_until = greatest(g.now + make_interval(secs => coalesce(j.retention_ms, q.retention_cancelled_ms) / 1000.0), j.unique_until),
        updated_at = g.now
    from gone g join tidemill.queues q on q.id = g.queue_id
    where j.id = g.job_id
), freed as (
    delete from tidemill.unique_holds h
    where h.kind = 'unique' and h.job_id = any(array(
        select u.job_id from tidemill.unique_holds u
        where u.kind = 'unique' and u.job_id = any(array(select g.job_id from gone g where g.traits & 3 <> 0))
        order by u.key for update))
), noted as (
    insert into tidemill.operation_jobs (operation_id, job_id, was, at)
    select %(operation_id)s::uuid, g.job_id, case when g.run_at > g.now then 'scheduled' else 'queued' end::tidemill.job_status, g.now from gone g
    on conflict do nothing
)
select f.job_id::text, 'later' as outcome, 0::smallint as traits from found f where f.is_later
union all
select g.job_id::text, 'moved', g.traits from gone g
