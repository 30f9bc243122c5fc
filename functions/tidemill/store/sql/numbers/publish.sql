-- Publish: the figures of all projects but the system's own, once a minute and to one pass only. Sums are of the whole minutes counted since the last time.
-- Parameters: leases integer (of which no more are counted); workers integer; now timestamptz or null.
-- Rows: one: queued, scheduled, running, oldest_queued_age_ms, dead, workers, slots, arrived, completed, failed, died, lag_ms; none if it is not time yet, or another
-- pass has it. Locks: the counter state (skip locked).
with due as materialized (
    select s.published_until, date_trunc('minute', s.folded_until) as until, n.now, n.now - s.folded_until as lag
    from tidemill.counter_state s
    cross join (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) n
    where s.id = 1 and s.folded_until is not null and (s.published_at is null or s.published_at < date_trunc('minute', n.now))
    for update of s skip locked
), noted as (
    update tidemill.counter_state s set published_at = d.now, published_until = d.until from due d where s.id = 1
), sums as (
    select coalesce(sum(c.arrived), 0) as arrived, coalesce(sum(c.completed), 0) as completed, coalesce(sum(c.failed), 0) as failed,
           coalesce(sum(c.dead), 0) as dead
    from due d
    join tidemill.queue_counters c on c.minute >= coalesce(d.published_until, d.until - interval '1 minute') and c.minute < d.until
        and c.queue_id <> tidemill.system_project() -- its only queue is called like it
), samples as (
    select coalesce(sum(s.queued) filter (where not q.is_paused), 0) as queued, coalesce(sum(s.scheduled), 0) as scheduled,
           coalesce(sum(s.dead), 0) as dead, coalesce(max(s.oldest_queued_age_ms) filter (where not q.is_paused), 0) as oldest
    from due d
    cross join tidemill.queues q
    cross join lateral (
        select i.* from tidemill.queue_samples i where i.queue_id = q.id and i.at > d.now - interval '5 minutes' order by i.at desc limit 1) s
    where q.project_id <> tidemill.system_project()
)
select s.queued::bigint, s.scheduled::bigint, (select count(*) from (select 1 from tidemill.job_leases l limit %(leases)s::integer) x) as running,
       s.oldest as oldest_queued_age_ms, s.dead::bigint, w.workers, w.slots,
       n.arrived::bigint, n.completed::bigint, n.failed::bigint, n.dead::bigint as died, (extract(epoch from d.lag) * 1000)::bigint as lag_ms
from due d
cross join sums n
cross join samples s
cross join lateral (
    select count(*) as workers, coalesce(sum(v.max_concurrency), 0)::bigint as slots
    from (select i.max_concurrency from tidemill.workers i
          where i.last_seen_at > d.now - interval '12 hours' and i.last_seen_at > d.now - make_interval(secs => i.lease_ms / 1000.0)
          order by i.last_seen_at desc limit %(workers)s::integer) v) w
