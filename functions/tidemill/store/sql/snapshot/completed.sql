-- Jobs that completed of late, the last first. Parameters: project_id uuid; hours integer: how far back; limit integer. Rows: at most limit ids in order.
-- Merges the queues' indexes, each of which gives at most limit rows. Locks: none.
select w.job_id::text
from tidemill.queues q
cross join lateral (
    (
        select x.finished_at, x.job_id from tidemill.job_executions x
        where x.queue_id = q.id and x.status = 'completed' and x.retention_until is null and x.finished_at >= statement_timestamp() - make_interval(hours => %(hours)s::integer)
        order by x.finished_at desc, x.job_id desc limit %(limit)s::integer
    ) union all (
        select x.finished_at, x.job_id from tidemill.job_executions x
        where x.queue_id = q.id and x.status = 'completed' and x.retention_until is not null and x.finished_at >= statement_timestamp() - make_interval(hours => %(hours)s::integer)
        order by x.finished_at desc, x.job_id desc limit %(limit)s::integer
    )
) w
where q.project_id = %(project_id)s::uuid
order by w.finished_at desc, w.job_id desc
limit %(limit)s::integer
