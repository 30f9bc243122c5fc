-- A standing limit, new or in the place of the one of this name. Parameters: project_id uuid; name text; queue text (name) or null; job_type text or null;
--   max_concurrent integer; on_saturated text. Rows: one: whether it is new; none if the queue does not exist. Locks: limit.
insert into tidemill.concurrency_limits as c (project_id, name, queue_id, job_type, max_concurrent, on_saturated)
select %(project_id)s::uuid, %(name)s::text, q.id, %(job_type)s::text, %(max_concurrent)s::integer, %(on_saturated)s::tidemill.saturation_rule
from (values (1)) as one (row)
left join tidemill.queues q on q.project_id = %(project_id)s::uuid and q.name = %(queue)s::text
where %(queue)s::text is null or q.id is not null
on conflict (project_id, name) do update
set queue_id = excluded.queue_id, job_type = excluded.job_type, max_concurrent = excluded.max_concurrent, on_saturated = excluded.on_saturated
returning c.xmax = 0 as is_new
