-- The next jobs in a phase that `jobs` itself remembers that match: no other table is read. For the filters that are most used; others are
-- walked by lists/* and lists/matching. Parameters: project_id uuid; phase text; descending boolean; after uuid or null (exclusive); limit integer (looked at); queue,
--   job_type, job_type_prefix, error_class text, tags, any_tags text[], priority integer, created_after, created_before timestamptz: each null = anything.
-- Rows: the id of each that matched, in order; then the last one looked at (null: it was the end), in each row; one row with a null id if nothing matched. Locks: none.
with looked as materialized (
    (select j.id from tidemill.jobs j
     where not %(descending)s::boolean and j.project_id = %(project_id)s::uuid and j.phase = %(phase)s::tidemill.job_phase and j.phase <> 'moving'
       and j.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
     order by j.id limit %(limit)s::integer)
    union all
    (select j.id from tidemill.jobs j
     where %(descending)s::boolean and j.project_id = %(project_id)s::uuid and j.phase = %(phase)s::tidemill.job_phase and j.phase <> 'moving'
       and j.id < coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     order by j.id desc limit %(limit)s::integer)
), edge as materialized (
    select case when count(*) = %(limit)s::integer then case when %(descending)s::boolean
               then (array_agg(l.id order by l.id))[1] else (array_agg(l.id order by l.id desc))[1] end end as last
    from looked l
), found as (
    select j.id from tidemill.jobs j
    where j.id = any(array(select l.id from looked l)) and j.phase = %(phase)s::tidemill.job_phase
      and (%(queue)s::text is null or j.queue_id = (select q.id from tidemill.queues q where q.project_id = %(project_id)s::uuid and q.name = %(queue)s::text))
      and (%(job_type)s::text is null or j.job_type = %(job_type)s::text)
      and (%(job_type_prefix)s::text is null or starts_with(j.job_type, %(job_type_prefix)s::text))
      and (%(error_class)s::text is null or j.error_class = %(error_class)s::text)
      and (%(tags)s::text[] is null or j.tags @> %(tags)s::text[])
      and (%(any_tags)s::text[] is null or j.tags && %(any_tags)s::text[])
      and (%(priority)s::integer is null or j.priority = %(priority)s::integer)
      and (%(created_after)s::timestamptz is null or j.created_at >= %(created_after)s::timestamptz)
      and (%(created_before)s::timestamptz is null or j.created_at < %(created_before)s::timestamptz)
)
select f.id::text, e.last::text
from edge e left join found f on true
order by case when %(descending)s::boolean then f.id end desc, case when not %(descending)s::boolean then f.id end
