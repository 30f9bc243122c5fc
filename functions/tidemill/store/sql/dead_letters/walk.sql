-- Open dead letters of a project by when they died. Parameters: project_id uuid; error_group text (hex) or null (all); descending boolean;
--   after_key timestamptz, after uuid (both null at the start; exclusive); limit integer.
-- Rows: id, moved_at, job_id, at most limit, in order of (moved_at, id). Locks: none.
(
    select d.id::text, d.moved_at as key, d.job_id::text
    from tidemill.dead_letter_queue d
    where %(descending)s::boolean and %(error_group)s::text is null and d.project_id = %(project_id)s::uuid and not d.resolved
      and (d.moved_at, d.id) < (coalesce(%(after_key)s::timestamptz, 'infinity'), coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by d.moved_at desc, d.id desc limit %(limit)s::integer
) union all (
    select d.id::text, d.moved_at as key, d.job_id::text
    from tidemill.dead_letter_queue d
    where not %(descending)s::boolean and %(error_group)s::text is null and d.project_id = %(project_id)s::uuid and not d.resolved
      and (d.moved_at, d.id) > (coalesce(%(after_key)s::timestamptz, '-infinity'), coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
    order by d.moved_at, d.id limit %(limit)s::integer
) union all (
    select d.id::text, d.moved_at as key, d.job_id::text
    from tidemill.dead_letter_queue d
    where %(descending)s::boolean and d.project_id = %(project_id)s::uuid and not d.resolved and d.error_group = decode(%(error_group)s::text, 'hex')
      and (d.moved_at, d.id) < (coalesce(%(after_key)s::timestamptz, 'infinity'), coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by d.moved_at desc, d.id desc limit %(limit)s::integer
) union all (
    select d.id::text, d.moved_at as key, d.job_id::text
    from tidemill.dead_letter_queue d
    where not %(descending)s::boolean and d.project_id = %(project_id)s::uuid and not d.resolved and d.error_group = decode(%(error_group)s::text, 'hex')
      and (d.moved_at, d.id) > (coalesce(%(after_key)s::timestamptz, '-infinity'), coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
    order by d.moved_at, d.id limit %(limit)s::integer
)
