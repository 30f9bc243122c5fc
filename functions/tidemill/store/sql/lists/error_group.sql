-- Ids of the dead jobs with one kind of error (hex) that nobody has settled, in creation order. Parameters: project_id uuid; value text; descending boolean;
--   after uuid or null (exclusive); low, high uuid or null (inclusive: what the creation times leave); limit integer. Rows: at most limit ids in order.
--   Locks: none.
(
    select d.job_id::text as id, null::timestamptz as key
    from tidemill.dead_letter_queue d
    where %(descending)s::boolean and d.project_id = %(project_id)s::uuid and d.error_group = decode(%(value)s::text, 'hex') and not d.resolved
      and d.job_id < coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      and d.job_id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by d.job_id desc limit %(limit)s::integer
) union all (
    select d.job_id::text as id, null::timestamptz as key
    from tidemill.dead_letter_queue d
    where not %(descending)s::boolean and d.project_id = %(project_id)s::uuid and d.error_group = decode(%(value)s::text, 'hex') and not d.resolved
      and d.job_id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
      and d.job_id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by d.job_id limit %(limit)s::integer
)
