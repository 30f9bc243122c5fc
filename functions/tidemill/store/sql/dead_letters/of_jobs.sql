-- Open dead letters of these jobs, by when they died. Parameters: project_id uuid; job_ids uuid[] (few); descending boolean;
--   after_key timestamptz, after uuid (both null at the start; exclusive); limit integer.
-- Rows: id, moved_at, job_id, at most limit, in order of (moved_at, id). Locks: none.
select d.id::text, d.moved_at as key, d.job_id::text
from tidemill.dead_letter_queue d
where d.job_id = any(%(job_ids)s::uuid[]) and d.project_id = %(project_id)s::uuid and not d.resolved
  and (%(after)s::uuid is null or case when %(descending)s::boolean then (d.moved_at, d.id) < (%(after_key)s::timestamptz, %(after)s::uuid)
                                       else (d.moved_at, d.id) > (%(after_key)s::timestamptz, %(after)s::uuid) end)
order by case when %(descending)s::boolean then d.moved_at end desc, case when %(descending)s::boolean then d.id end desc,
         case when not %(descending)s::boolean then d.moved_at end, case when not %(descending)s::boolean then d.id end
limit %(limit)s::integer
