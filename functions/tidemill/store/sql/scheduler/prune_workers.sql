-- Prune: workers not seen for %(stale_ms)s, and heartbeats older than that. Parameters: stale_ms bigint; limit integer; now timestamptz or null.
-- Rows: one: workers, heartbeats removed. A worker's leases are not its row's business: they end by themselves.
with edge as (
    select coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(stale_ms)s::bigint / 1000.0) as at
), workers as (
    delete from tidemill.workers w where w.id in (
        select v.id from tidemill.workers v where v.last_seen_at < (select e.at from edge e) limit %(limit)s::integer for update skip locked)
    returning w.id
), beds as (
    delete from tidemill.queue_sleepers s using workers w where s.worker_id = w.id
), beats as (
    delete from tidemill.worker_heartbeats h where h.id in (
        select b.id from tidemill.worker_heartbeats b where b.ts < (select e.at from edge e) limit %(limit)s::integer for update skip locked)
    returning 1
)
select (select count(*) from workers) as workers, (select count(*) from beats) as heartbeats
