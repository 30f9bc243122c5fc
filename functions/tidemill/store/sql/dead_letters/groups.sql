-- Kinds of errors with open dead letters, the newest kind first: what is folded and what is not folded yet, added up.
-- Parameters: project_id uuid; queue, job_type, job_type_prefix, error_class text or null (anything); after_key timestamptz, after bytea (both null at
--   the start; exclusive); limit integer; rows integer: how many rows of either table are looked at.
-- Rows: at most limit, in order of (first_seen_at, error_group) descending; is_whole: nothing lay beyond `rows`; the last dead letter of each; deaths per
--   hour of the last 24. Locks: none.
with folded as materialized (
    select g.error_group, g.queue_id, g.job_type, g.error_class, g.message, g.open_count as opened, g.total as died, g.first_seen_at as first_at, g.last_seen_at as last_at
    from tidemill.error_groups g
    where g.project_id = %(project_id)s::uuid
    limit %(rows)s::integer
), news as materialized (
    select n.error_group, n.queue_id, n.job_type, n.error_class, n.message, n.opened, n.died,
           case when n.died > 0 then n.first_at end as first_at, case when n.died > 0 then n.last_at end as last_at, n.hour
    from tidemill.error_group_news n
    where n.project_id = %(project_id)s::uuid
    order by n.id
    limit %(rows)s::integer
), chosen as materialized (
    select q.id, q.name::text as name
    from tidemill.queues q
    where q.project_id = %(project_id)s::uuid and (%(queue)s::text is null or q.name = %(queue)s::text)
), parts as (
    select f.error_group, f.queue_id, f.job_type, f.error_class, f.message, f.opened, f.died, f.first_at, f.last_at from folded f
    union all
    select n.error_group, n.queue_id, n.job_type, n.error_class, n.message, n.opened, n.died, n.first_at, n.last_at from news n
), groups as (
    select p.error_group, min(p.error_class) as error_class, max(p.message) as message, sum(p.opened)::bigint as open_count, sum(p.died)::bigint as total,
           min(p.first_at) as first_seen_at, max(p.last_at) as last_seen_at,
           (array_agg(distinct c.name))[1:20] as queues, (array_agg(distinct p.job_type))[1:20] as job_types
    from parts p
    join chosen c on c.id = p.queue_id
    where (%(job_type)s::text is null or p.job_type = %(job_type)s::text)
      and (%(job_type_prefix)s::text is null or starts_with(p.job_type, %(job_type_prefix)s::text))
    group by p.error_group
    having sum(p.opened) > 0 and (%(error_class)s::text is null or min(p.error_class) = %(error_class)s::text)
), page as (
    select g.* from groups g
    where (g.first_seen_at, g.error_group) < (coalesce(%(after_key)s::timestamptz, 'infinity'), coalesce(%(after)s::bytea, '\xffffffffffffffffffffffffffffffffff'))
    order by g.first_seen_at desc, g.error_group desc
    limit %(limit)s::integer
)
select encode(p.error_group, 'hex') as error_group, p.error_class, p.message, p.open_count, p.total, p.first_seen_at, p.last_seen_at, p.queues, p.job_types,
       (select count(*) from folded) < %(rows)s::integer and (select count(*) from news) < %(rows)s::integer as is_whole,
       l.job_id::text as sample_job_id, l.last_error as sample_message, h.deaths
from page p
left join lateral (
    select d.job_id, d.last_error from tidemill.dead_letter_queue d
    where d.project_id = %(project_id)s::uuid and d.error_group = p.error_group and not d.resolved
    order by d.moved_at desc, d.id desc
    limit 1
) l on true
cross join lateral (
    select array_agg(coalesce(s.died, 0) order by t.hour) as deaths
    from generate_series(date_trunc('hour', statement_timestamp(), 'UTC') - interval '23 hours', date_trunc('hour', statement_timestamp(), 'UTC'), interval '1 hour') as t (hour)
    left join (
        select b.hour, sum(b.died)::bigint as died
        from (
            select e.hour, e.died, e.queue_id, e.job_type from tidemill.error_group_hours e
            where e.project_id = %(project_id)s::uuid and e.error_group = p.error_group
            union all
            select n.hour, n.died, n.queue_id, n.job_type from news n where n.error_group = p.error_group
        ) b
        join chosen c on c.id = b.queue_id
        where (%(job_type)s::text is null or b.job_type = %(job_type)s::text)
          and (%(job_type_prefix)s::text is null or starts_with(b.job_type, %(job_type_prefix)s::text))
        group by b.hour
    ) s on s.hour = t.hour
) h
order by p.first_seen_at desc, p.error_group desc
