-- Jobs that have ended, by when. Merges three indexes, each of which gives at most limit rows (the completed ones: per queue).
-- Parameters: project_id uuid; descending boolean; after_key timestamptz, after uuid (both null at the start; exclusive); limit integer.
-- Rows: id and finalized_at, at most limit, in order of (finalized_at, id). Locks: none.
with ended as (
(
    select j.finalized_at as key, j.id as id
    from tidemill.jobs j
    where %(descending)s::boolean and j.project_id = %(project_id)s::uuid and j.finalized_at is not null
      and (j.finalized_at, j.id) < (coalesce(%(after_key)s::timestamptz, 'infinity'), coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by j.finalized_at desc, j.id desc limit %(limit)s::integer
)
union all
(
    select j.finalized_at as key, j.id as id
    from tidemill.jobs j
    where not %(descending)s::boolean and j.project_id = %(project_id)s::uuid and j.finalized_at is not null
      and (j.finalized_at, j.id) > (coalesce(%(after_key)s::timestamptz, '-infinity'), coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
    order by j.finalized_at, j.id limit %(limit)s::integer
)
union all
(select w.key, w.id from tidemill.queues q cross join lateral (
        select x.finished_at as key, x.job_id as id
        from tidemill.job_executions x
        where %(descending)s::boolean and x.queue_id = q.id and x.status = 'completed' and x.retention_until is null
          and (x.finished_at, x.job_id) < (coalesce(%(after_key)s::timestamptz, 'infinity'), coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
        order by x.finished_at desc, x.job_id desc limit %(limit)s::integer
    ) w where q.project_id = %(project_id)s::uuid)
union all
(select w.key, w.id from tidemill.queues q cross join lateral (
        select x.finished_at as key, x.job_id as id
        from tidemill.job_executions x
        where not %(descending)s::boolean and x.queue_id = q.id and x.status = 'completed' and x.retention_until is null
          and (x.finished_at, x.job_id) > (coalesce(%(after_key)s::timestamptz, '-infinity'), coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
        order by x.finished_at, x.job_id limit %(limit)s::integer
    ) w where q.project_id = %(project_id)s::uuid)
union all
(select w.key, w.id from tidemill.queues q cross join lateral (
        select x.finished_at as key, x.job_id as id
        from tidemill.job_executions x
        where %(descending)s::boolean and x.queue_id = q.id and x.status = 'completed' and x.retention_until is not null
          and (x.finished_at, x.job_id) < (coalesce(%(after_key)s::timestamptz, 'infinity'), coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
        order by x.finished_at desc, x.job_id desc limit %(limit)s::integer
    ) w where q.project_id = %(project_id)s::uuid)
union all
(select w.key, w.id from tidemill.queues q cross join lateral (
        select x.finished_at as key, x.job_id as id
        from tidemill.job_executions x
        where not %(descending)s::boolean and x.queue_id = q.id and x.status = 'completed' and x.retention_until is not null
          and (x.finished_at, x.job_id) > (coalesce(%(after_key)s::timestamptz, '-infinity'), coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
        order by x.finished_at, x.job_id limit %(limit)s::integer
    ) w where q.project_id = %(project_id)s::uuid)
)
select e.id::text, e.key
from ended e
order by case when %(descending)s::boolean then e.key end desc, case when %(descending)s::boolean then e.id end desc,
         case when not %(descending)s::boolean then e.key end, case when not %(descending)s::boolean then e.id end
limit %(limit)s::integer
