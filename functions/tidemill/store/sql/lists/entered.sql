-- Ids of jobs that may be scheduled or queued, in creation order: those with an entry where these are few, else all of the project (lists/matching tells).
-- A few old jobs that wait are thus found at once behind any number of younger ones that have ended.
-- Parameters: project_id uuid; few integer; descending boolean; after uuid or null (exclusive); low, high uuid or null (inclusive: what the creation
--   times leave); limit integer. Rows: at most limit ids in order. Locks: none.
with entries as materialized (
    select w.job_id as id
    from tidemill.queues q
    cross join lateral (select e.job_id from tidemill.job_queue_entries e where e.queue_id = q.id limit %(few)s::integer + 1) w
    where q.project_id = %(project_id)s::uuid
    limit %(few)s::integer + 1
), few as materialized (
    select count(*) <= %(few)s::integer as yes from entries
)
(
    select e.id::text as id, null::timestamptz as key
    from entries e
    where (select f.yes from few f)
      and (%(after)s::uuid is null or case when %(descending)s::boolean then e.id < %(after)s::uuid else e.id > %(after)s::uuid end)
      and e.id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by case when %(descending)s::boolean then e.id end desc, case when not %(descending)s::boolean then e.id end
    limit %(limit)s::integer
) union all (
    select j.id::text as id, null::timestamptz as key
    from tidemill.jobs j
    where not (select f.yes from few f) and %(descending)s::boolean
      and (j.project_id, j.id) < (%(project_id)s::uuid, coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
      and (j.project_id, j.id) between (%(project_id)s::uuid, coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000')) and (%(project_id)s::uuid, coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by j.project_id desc, j.id desc limit %(limit)s::integer
) union all (
    select j.id::text as id, null::timestamptz as key
    from tidemill.jobs j
    where not (select f.yes from few f) and not %(descending)s::boolean
      and (j.project_id, j.id) > (%(project_id)s::uuid, coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
      and (j.project_id, j.id) between (%(project_id)s::uuid, coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000')) and (%(project_id)s::uuid, coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by j.project_id, j.id limit %(limit)s::integer
)
