-- Jobs that time alone keeps from a worker, by the time they wait for. Merges the queues' priority levels, and the entries in lanes: each gives at most limit rows.
-- Parameters: project_id uuid; queue text or null (all); descending boolean; after_key timestamptz, after uuid (both null at the start; exclusive);
--   limit integer. Rows: id and run_at, at most limit, in order of (run_at, id). Locks: none.
select w.job_id::text as id, w.run_at as key
from tidemill.queues q
cross join lateral (
    select distinct i.priority, false as is_gated from tidemill.queue_levels i where i.queue_id = q.id
    union all
    select null, true
) l
cross join lateral (
    (
        select e.run_at, e.job_id from tidemill.job_queue_entries e
        where %(descending)s::boolean and not l.is_gated and e.queue_id = q.id and e.lane = 0 and e.priority = l.priority
          and (e.run_at, e.job_id) < (coalesce(%(after_key)s::timestamptz, 'infinity'), coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
        order by e.run_at desc, e.job_id desc limit %(limit)s::integer
    ) union all (
        select e.run_at, e.job_id from tidemill.job_queue_entries e
        where not %(descending)s::boolean and not l.is_gated and e.queue_id = q.id and e.lane = 0 and e.priority = l.priority
          and (e.run_at, e.job_id) > (coalesce(%(after_key)s::timestamptz, '-infinity'), coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
        order by e.run_at, e.job_id limit %(limit)s::integer
    ) union all (
        select e.run_at, e.job_id from tidemill.job_queue_entries e
        where %(descending)s::boolean and l.is_gated and e.queue_id = q.id and e.lane <> 0
          and (e.run_at, e.job_id) < (coalesce(%(after_key)s::timestamptz, 'infinity'), coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
        order by e.run_at desc, e.job_id desc limit %(limit)s::integer
    ) union all (
        select e.run_at, e.job_id from tidemill.job_queue_entries e
        where not %(descending)s::boolean and l.is_gated and e.queue_id = q.id and e.lane <> 0
          and (e.run_at, e.job_id) > (coalesce(%(after_key)s::timestamptz, '-infinity'), coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
        order by e.run_at, e.job_id limit %(limit)s::integer
    )
) w
where q.project_id = %(project_id)s::uuid and (%(queue)s::text is null or q.name = %(queue)s::text)
order by case when %(descending)s::boolean then w.run_at end desc, case when %(descending)s::boolean then w.job_id end desc,
         case when not %(descending)s::boolean then w.run_at end, case when not %(descending)s::boolean then w.job_id end
limit %(limit)s::integer
