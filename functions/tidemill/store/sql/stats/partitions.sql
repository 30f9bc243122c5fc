-- The partitions of a queue by key: what is due and waits, what runs, weights. What has no key of its own is the partition ''. Lanes that no claim has
-- read yet are found through their news. Parameters: queue_id uuid; after text or null (exclusive); limit integer; lanes integer (lanes, news and leases, of
-- which no more are looked at); each integer, most integer (entries counted per lane, and in all). Rows: at most limit: partition_key, waiting, is_whole, running, weight,
-- share, virtual_time, oldest_queued_age_ms. Locks: none. Index ranges only.
with lanes as materialized (
    select k.lane, k.priority, min(k.partition_key) as partition_key
    from (
        (select l.lane, l.priority, l.partition_key from tidemill.queue_lanes l where l.queue_id = %(queue_id)s::uuid limit %(lanes)s::integer)
        union all
        (select j.lane, j.priority, coalesce(j.partition_key, '')
         from (select u.job_id
               from (select i.job_id, i.job_ids from tidemill.lane_news i
                     where i.queue_id = %(queue_id)s::uuid and num_nonnulls(i.job_id, i.job_ids) = 1 order by i.id limit %(lanes)s::integer) m
               cross join lateral unnest(coalesce(m.job_ids, array[m.job_id])) as u (job_id)
               limit %(lanes)s::integer) n
         cross join lateral (select i.lane, i.priority, i.partition_key from tidemill.jobs i where i.id = n.job_id and i.lane <> 0 limit 1) j)
        union all
        (select 0, v.priority, '' from (select distinct i.priority from tidemill.queue_levels i where i.queue_id = %(queue_id)s::uuid) v)
    ) k
    group by k.lane, k.priority
), counted as materialized (
    select w.lane, w.priority, count(*) as n
    from (
        select l.lane, l.priority from lanes l
        cross join lateral (
            select 1 from tidemill.job_queue_entries e
            where e.queue_id = %(queue_id)s::uuid and e.lane = l.lane and e.priority = l.priority
              and e.run_at <= statement_timestamp() limit %(each)s::integer) x
        limit %(most)s::integer) w
    group by w.lane, w.priority
), waiting as materialized (
    select l.partition_key, sum(c.n)::bigint as waiting, bool_and(c.n < %(each)s::integer) as is_whole, min(h.run_at) as oldest
    from counted c
    join lanes l on l.lane = c.lane and l.priority = c.priority
    left join lateral (
        select e.run_at from tidemill.job_queue_entries e
        where e.queue_id = %(queue_id)s::uuid and e.lane = l.lane and e.priority = l.priority and e.run_at <= statement_timestamp()
        order by e.run_at limit 1) h on true
    group by l.partition_key
), running as materialized (
    select coalesce(l.partition_key, '') as partition_key, count(*) as running
    from (select i.queue_id, i.partition_key from tidemill.job_leases i limit %(lanes)s::integer) l
    where l.queue_id = %(queue_id)s::uuid group by 1
), known as materialized (
    select p.partition_key, p.weight, p.virtual_finish from tidemill.queue_partitions p
    where p.queue_id = %(queue_id)s::uuid order by p.partition_key limit %(lanes)s::integer
), whole as materialized (
    select k.partition_key, coalesce(w.waiting, 0) as waiting, coalesce(w.is_whole, true) as is_whole, coalesce(r.running, 0) as running,
           coalesce(p.weight, 1) as weight, coalesce(p.virtual_finish, 0) as virtual_time, w.oldest
    from (select n.partition_key from known n union select w.partition_key from waiting w union select r.partition_key from running r) k
    left join known p on p.partition_key = k.partition_key
    left join waiting w on w.partition_key = k.partition_key
    left join running r on r.partition_key = k.partition_key
)
select s.*
from (
    select p.partition_key, p.waiting::bigint as waiting, p.is_whole and coalesce((select sum(c.n) < %(most)s::integer from counted c), true) as is_whole,
           p.running, p.weight,
           case when p.waiting > 0 then p.weight::double precision / sum(p.weight) filter (where p.waiting > 0) over () else 0 end as share, p.virtual_time,
           case when p.oldest is not null then greatest(0, extract(epoch from statement_timestamp() - p.oldest) * 1000)::bigint end as oldest_queued_age_ms
    from whole p) s
where %(after)s::text is null or s.partition_key > %(after)s::text
order by s.partition_key
limit %(limit)s::integer
