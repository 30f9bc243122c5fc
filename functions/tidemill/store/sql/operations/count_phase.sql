-- Counts jobs in a phase that `jobs` itself remembers, the next %(limit)s of the index: no other table is read. For the filters that are most used;
-- others are counted from lists/matching. Parameters: project_id uuid; phase text; after uuid or null (exclusive); limit integer; queue, job_type,
--   job_type_prefix, error_class text, tags, any_tags text[], priority integer, created_after, created_before timestamptz: each null = anything.
-- Rows: job_type, error_class, count, one id of each kind that matched; then the id at which to go on (null: it was the end), in each row; one row with count 0 if
-- nothing matched. Locks: none.
with edge as materialized (
    select (select w.id from (
        select j.id from tidemill.jobs j
        where j.project_id = %(project_id)s::uuid and j.phase = %(phase)s::tidemill.job_phase and j.phase <> 'moving'
          and j.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
        order by j.id offset %(limit)s::integer - 1 limit 1) w) as last
), kinds as (
    select j.job_type, j.error_class, count(*) as n, (array_agg(j.id))[1] as example
    from tidemill.jobs j
    where j.project_id = %(project_id)s::uuid and j.phase = %(phase)s::tidemill.job_phase and j.phase <> 'moving'
      and j.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
      and j.id <= coalesce((select e.last from edge e), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      and (%(queue)s::text is null or j.queue_id = (select q.id from tidemill.queues q where q.project_id = %(project_id)s::uuid and q.name = %(queue)s::text))
      and (%(job_type)s::text is null or j.job_type = %(job_type)s::text)
      and (%(job_type_prefix)s::text is null or starts_with(j.job_type, %(job_type_prefix)s::text))
      and (%(error_class)s::text is null or j.error_class = %(error_class)s::text)
      and (%(tags)s::text[] is null or j.tags @> %(tags)s::text[])
      and (%(any_tags)s::text[] is null or j.tags && %(any_tags)s::text[])
      and (%(priority)s::integer is null or j.priority = %(priority)s::integer)
      and (%(created_after)s::timestamptz is null or j.created_at >= %(created_after)s::timestamptz)
      and (%(created_before)s::timestamptz is null or j.created_at < %(created_before)s::timestamptz)
    group by j.job_type, j.error_class
)
select k.job_type::text, k.error_class, coalesce(k.n, 0) as n, k.example::text, e.last::text
from edge e left join kinds k on true
order by k.n desc
