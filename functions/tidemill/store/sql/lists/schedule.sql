-- Ids of the jobs that a schedule made, in creation order. Parameters: project_id uuid; value uuid; descending boolean; after uuid or null (exclusive);
--   low, high uuid or null (inclusive: what the creation times leave); limit integer. Rows: at most limit ids in order. Locks: none.
(
    select j.id::text as id, null::timestamptz as key
    from tidemill.jobs j
    where %(descending)s::boolean and j.project_id = %(project_id)s::uuid and j.scheduled_job_id = %(value)s::uuid
      and j.id < coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      and j.id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by j.scheduled_job_id desc, j.id desc limit %(limit)s::integer
) union all (
    select j.id::text as id, null::timestamptz as key
    from tidemill.jobs j
    where not %(descending)s::boolean and j.project_id = %(project_id)s::uuid and j.scheduled_job_id = %(value)s::uuid
      and j.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
      and j.id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by j.scheduled_job_id, j.id limit %(limit)s::integer
)
