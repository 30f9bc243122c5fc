-- Sample: how much stands in each queue that has no sample of this minute yet. Counts at most %(most)s of each kind and queue, in index ranges.
-- Parameters: limit integer (queues); most bigint; now timestamptz or null. Rows: one: samples written. Locks: none that anybody waits for.
with at as materialized (
    select n.now, date_trunc('minute', n.now) as minute from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) n
), queues as materialized (
    select q.id, q.project_id, a.now, a.minute
    from tidemill.queues q cross join at a
    where not exists (select from tidemill.queue_samples s where s.queue_id = q.id and s.at = a.minute)
    order by q.id limit %(limit)s::integer
), levels as materialized (
    select distinct l.queue_id, l.priority from queues q join tidemill.queue_levels l on l.queue_id = q.id
), leases as materialized (
    select l.queue_id, count(*) as n from (select i.queue_id from tidemill.job_leases i limit %(most)s::bigint) l group by l.queue_id
), waiting as materialized (
    select w.queue_id, count(*) as n
    from (select distinct q.project_id from queues q) p
    cross join lateral (
        select j.queue_id from tidemill.jobs j where j.project_id = p.project_id and j.phase = 'waiting' order by j.id limit %(most)s::bigint) w
    group by w.queue_id
), found as materialized (
    select q.id, q.minute, q.now, c.queued, c.scheduled, c.oldest, d.n as dead,
           coalesce((select l.n from leases l where l.queue_id = q.id), 0) as running,
           coalesce((select w.n from waiting w where w.queue_id = q.id), 0) as pending
    from queues q
    cross join lateral (
        select coalesce(sum(k.queued), 0)::bigint as queued, coalesce(sum(k.scheduled), 0)::bigint as scheduled, min(k.oldest) as oldest
        from (
            select (select count(*) from (
                        select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane = 0 and e.priority = l.priority
                          and e.run_at <= q.now limit %(most)s::bigint) x) as queued,
                   (select count(*) from (
                        select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane = 0 and e.priority = l.priority
                          and e.run_at > q.now limit %(most)s::bigint) x) as scheduled,
                   (select e.run_at from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane = 0 and e.priority = l.priority
                      and e.run_at <= q.now order by e.run_at limit 1) as oldest
            from levels l where l.queue_id = q.id
            union all
            select (select count(*) from (
                        select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane <> 0 and e.run_at <= q.now
                        limit %(most)s::bigint) x),
                   (select count(*) from (
                        select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane <> 0 and e.run_at > q.now
                        limit %(most)s::bigint) x),
                   (select e.run_at from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane <> 0 and e.run_at <= q.now
                    order by e.run_at limit 1)) k) c
    cross join lateral (
        select count(*) as n from (
            select 1 from tidemill.dead_letter_queue x where x.queue_id = q.id and not x.resolved limit %(most)s::bigint) y) d
), sizes as materialized (
    -- what one job takes: the mean of some that wait, plus its entry
    select f.id, coalesce((
        select avg(pg_column_size(j.*)) from (
            (select e.job_id from tidemill.job_queue_entries e where e.queue_id = f.id and e.lane = 0 limit 10)
            union all
            (select e.job_id from tidemill.job_queue_entries e where e.queue_id = f.id and e.lane <> 0 order by e.run_at limit 10)) s
        cross join lateral (select i.* from tidemill.jobs i where i.id = s.job_id limit 1) j), 0) + 150 as bytes
    from found f
), written as (
    insert into tidemill.queue_samples (queue_id, at, queued, scheduled, running, pending, dead, oldest_queued_age_ms, memory_mb)
    select f.id, f.minute, f.queued, f.scheduled, f.running, f.pending, f.dead,
           case when f.oldest is not null then greatest(0, extract(epoch from f.now - f.oldest) * 1000)::bigint end,
           (f.queued + f.scheduled + f.running + f.pending) * s.bytes / 1e6
    from found f join sizes s on s.id = f.id
    on conflict (queue_id, at) do nothing
    returning 1
)
select count(*) from written
