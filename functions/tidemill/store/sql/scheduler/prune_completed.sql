-- Prune: ids of completed jobs whose time is over, oldest first. Parameters: limit integer; now timestamptz or null. Rows: project_id, job_id.
with queues as materialized (
    select q.id, q.project_id, q.retention_completed_ms from tidemill.queues q
), usual as (
    select q.project_id, x.job_id
    from queues q
    cross join lateral (
        select c.job_id from tidemill.job_executions c
        where c.queue_id = q.id and c.status = 'completed' and c.retention_until is null
          and c.finished_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => q.retention_completed_ms / 1000.0)
        order by c.finished_at limit %(limit)s::integer
    ) x
    limit %(limit)s::integer
), own as (
    select j.project_id, x.job_id
    from tidemill.job_executions x join tidemill.jobs j on j.id = x.job_id
    where x.retention_until <= coalesce(%(now)s::timestamptz, statement_timestamp())
    order by x.retention_until limit %(limit)s::integer
)
select u.project_id::text, u.job_id::text from usual u
union all
select o.project_id::text, o.job_id::text from own o
limit %(limit)s::integer
