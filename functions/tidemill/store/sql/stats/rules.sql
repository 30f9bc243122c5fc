-- The rules that a queue is served by now. Parameters: project_id, queue_id uuid; limit integer (of each kind). Rows: one: max_concurrency (the least of the
-- queue's own and of its standing limits, or null), weights (JSON: partition -> weight where it is not 1), limits (JSON: job type -> running at once), rates
-- (JSON: class -> limit, window_ms, burst; a paused one has limit 0). Locks: none.
select least(q.max_concurrency, (select min(c.max_concurrent) from tidemill.concurrency_limits c where c.queue_id = q.id)) as max_concurrency,
       coalesce((select jsonb_object_agg(p.partition_key, p.weight) from (
           select i.partition_key, i.weight from tidemill.queue_partitions i where i.queue_id = q.id and i.weight <> 1 limit %(limit)s::integer) p), '{}') as weights,
       coalesce((select jsonb_object_agg(l.job_type, l.most) from (
           select c.job_type, min(c.max_concurrent) as most from tidemill.concurrency_limits c
           where c.project_id = q.project_id and c.job_type is not null group by c.job_type limit %(limit)s::integer) l), '{}') as limits,
       coalesce((select jsonb_object_agg(r.name, jsonb_build_array(case when r.is_paused then 0 else r."limit" end, r.window_ms, r.burst)) from (
           select i.* from tidemill.rate_classes i where i.project_id = q.project_id order by i.name limit %(limit)s::integer) r), '{}') as rates
from tidemill.queues q
where q.id = %(queue_id)s::uuid and q.project_id = %(project_id)s::uuid
