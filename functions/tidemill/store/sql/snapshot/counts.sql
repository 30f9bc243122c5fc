-- How many stand in each list of the snapshot, each counted up to %(most)s. Parameters: project_id uuid; completed_hours, failed_hours integer; most integer.
-- Rows: one: enqueued, running, completed, failed. Each walks an index and stops at the bound. Locks: none.
with queues as materialized (
    select q.id from tidemill.queues q where q.project_id = %(project_id)s::uuid
)
select
    (select count(*) from (
        select 1 from queues q cross join lateral (
            select 1 from tidemill.job_queue_entries e where e.queue_id = q.id limit %(most)s::integer) w limit %(most)s::integer) n) as enqueued,
    (select count(*) from (
        select 1 from tidemill.job_leases l where l.queue_id in (select q.id from queues q) limit %(most)s::integer) n) as running,
    (select count(*) from (
        select 1 from queues q cross join lateral (
            (select 1 from tidemill.job_executions x
             where x.queue_id = q.id and x.status = 'completed' and x.retention_until is null and x.finished_at >= statement_timestamp() - make_interval(hours => %(completed_hours)s::integer)
             limit %(most)s::integer)
            union all
            (select 1 from tidemill.job_executions x
             where x.queue_id = q.id and x.status = 'completed' and x.retention_until is not null and x.finished_at >= statement_timestamp() - make_interval(hours => %(completed_hours)s::integer)
             limit %(most)s::integer)) w limit %(most)s::integer) n) as completed,
    (select count(*) from (
        select 1 from tidemill.dead_letter_queue d
        where d.project_id = %(project_id)s::uuid and not d.resolved and d.moved_at >= statement_timestamp() - make_interval(hours => %(failed_hours)s::integer)
        limit %(most)s::integer) n) as failed
