-- Ids of a project's jobs in creation order. Parameters: project_id uuid; descending boolean; after uuid or null (exclusive);
--   low, high uuid or null (inclusive: what the creation times leave); limit integer. Rows: at most limit ids in order. Locks: none.
-- Bounds and order name the project as a column of the index: the primary key with a filter would walk the rows of all other projects.
(
    select j.id::text as id, null::timestamptz as key
    from tidemill.jobs j
    where %(descending)s::boolean
      and (j.project_id, j.id) < (%(project_id)s::uuid, coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
      and (j.project_id, j.id) between (%(project_id)s::uuid, coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000')) and (%(project_id)s::uuid, coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by j.project_id desc, j.id desc limit %(limit)s::integer
) union all (
    select j.id::text as id, null::timestamptz as key
    from tidemill.jobs j
    where not %(descending)s::boolean
      and (j.project_id, j.id) > (%(project_id)s::uuid, coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
      and (j.project_id, j.id) between (%(project_id)s::uuid, coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000')) and (%(project_id)s::uuid, coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by j.project_id, j.id limit %(limit)s::integer
)
