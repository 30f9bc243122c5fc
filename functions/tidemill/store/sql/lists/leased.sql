-- Ids of a project's claimed and running jobs in creation order. Walks the leases of all projects, which are few, and looks each one's job up.
-- Parameters: project_id uuid; descending boolean; after uuid or null (exclusive);
--   low, high uuid or null (inclusive: what the creation times leave); limit integer. Rows: at most limit ids in order. Locks: none.
(
    select l.job_id::text as id, null::timestamptz as key
    from tidemill.job_leases l
    where %(descending)s::boolean and (select j.project_id from tidemill.jobs j where j.id = l.job_id) = %(project_id)s::uuid
      and l.job_id < coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      and l.job_id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by l.job_id desc limit %(limit)s::integer
) union all (
    select l.job_id::text as id, null::timestamptz as key
    from tidemill.job_leases l
    where not %(descending)s::boolean and (select j.project_id from tidemill.jobs j where j.id = l.job_id) = %(project_id)s::uuid
      and l.job_id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
      and l.job_id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by l.job_id limit %(limit)s::integer
)
