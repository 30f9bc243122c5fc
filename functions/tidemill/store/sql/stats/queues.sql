-- What stands in each queue of a project, by name, or in one of them. Counts stop at %(most)s; sampled_* is what the last sample says (null: none of late).
-- Parameters: project_id uuid; name text or null (all); limit integer (queues); most integer; leases integer (of which no more are looked at).
-- Rows: at most limit. Locks: none. Index ranges only.
with queues as materialized (
    select q.id, q.name::text as name, q.is_paused, q.priority, q.max_concurrency
    from tidemill.queues q
    where q.project_id = %(project_id)s::uuid and (%(name)s::text is null or q.name = %(name)s::text)
    order by q.name limit %(limit)s::integer
), levels as materialized (
    select distinct l.queue_id, l.priority from queues q join tidemill.queue_levels l on l.queue_id = q.id
), leases as materialized (
    select l.queue_id, count(*) filter (where l.started_at is null) as claimed, count(*) filter (where l.started_at is not null) as running
    from (select i.queue_id, i.started_at from tidemill.job_leases i limit %(leases)s::integer) l group by l.queue_id
)
select q.id::text, q.name, q.is_paused, q.priority, q.max_concurrency, c.queued, c.scheduled,
       coalesce((select l.claimed from leases l where l.queue_id = q.id), 0) as claimed,
       coalesce((select l.running from leases l where l.queue_id = q.id), 0) as running, d.n as dead,
       case when c.oldest is not null then greatest(0, extract(epoch from statement_timestamp() - c.oldest) * 1000)::bigint end as oldest_queued_age_ms,
       s.queued as sampled_queued, s.scheduled as sampled_scheduled, s.dead as sampled_dead, s.pending, s.memory_mb, s.at as sampled_at
from queues q
cross join lateral (
    select coalesce(sum(k.queued), 0)::bigint as queued, coalesce(sum(k.scheduled), 0)::bigint as scheduled, min(k.oldest) as oldest
    from (
        select (select count(*) from (
                    select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane = 0 and e.priority = l.priority
                      and e.run_at <= statement_timestamp() limit %(most)s::integer) x) as queued,
               (select count(*) from (
                    select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane = 0 and e.priority = l.priority
                      and e.run_at > statement_timestamp() limit %(most)s::integer) x) as scheduled,
               (select e.run_at from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane = 0 and e.priority = l.priority
                  and e.run_at <= statement_timestamp() order by e.run_at limit 1) as oldest
        from levels l where l.queue_id = q.id
        union all
        select (select count(*) from (
                    select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane <> 0 and e.run_at <= statement_timestamp()
                    limit %(most)s::integer) x),
               (select count(*) from (
                    select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane <> 0 and e.run_at > statement_timestamp()
                    limit %(most)s::integer) x),
               (select e.run_at from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane <> 0 and e.run_at <= statement_timestamp()
                order by e.run_at limit 1)) k) c
cross join lateral (
    select count(*) as n from (
        select 1 from tidemill.dead_letter_queue x where x.queue_id = q.id and not x.resolved limit %(most)s::integer) y) d
left join lateral (
    select i.* from tidemill.queue_samples i where i.queue_id = q.id and i.at > statement_timestamp() - interval '10 minutes'
    order by i.at desc limit 1) s on true
order by q.name
