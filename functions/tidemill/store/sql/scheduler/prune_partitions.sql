-- Prune: partitions that were served last longer than %(kept_ms)s ago, have nothing ready and the default weight. One that gets work again begins at its queue's
-- clock, as any that was idle does. Only claims write partitions, under the queue's lock: so a queue that somebody is at is left to a later pass.
-- Parameters: kept_ms bigint; limit integer; now timestamptz or null. Rows: one: how many. Locks: the queues' (tried) -> partitions (skip locked).
with idle as materialized (
    select p.queue_id, p.partition_key
    from tidemill.queue_partitions p
    where not p.is_ready and p.weight = 1
      and p.served_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(kept_ms)s::bigint / 1000.0)
    order by p.served_at limit %(limit)s::integer
), held as materialized (
    select q.queue_id from (select distinct i.queue_id from idle i) q where pg_try_advisory_xact_lock(tidemill.queue_lock(q.queue_id))
), gone as (
    -- a claim that has ended since this statement began has changed its rows, which are then looked at again
    delete from tidemill.queue_partitions p
    where p.ctid = any(array(
        select o.ctid from idle i
        cross join lateral (
            select n.ctid from tidemill.queue_partitions n
            where n.queue_id = i.queue_id and n.partition_key = i.partition_key and not n.is_ready and n.weight = 1
              and n.served_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(kept_ms)s::bigint / 1000.0)
            limit 1 for update skip locked) o
        where i.queue_id in (select h.queue_id from held h)))
    returning 1
)
select count(*) from gone
