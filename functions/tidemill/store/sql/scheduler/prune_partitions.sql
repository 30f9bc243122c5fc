-- Prune: those of a queue's idle partitions (idle_partitions.sql) that are still so. One that gets work again begins at its queue's clock, as any that was idle
-- does. Only claims write partitions, under the queue's lock: this waits in line for it, because whoever only tries has no turn where workers always stand
-- in line. A transaction of its own, so that a queue is held for this one statement.
-- Parameters: queue_id uuid; partition_keys text[]; kept_ms bigint; wait_ms integer; now timestamptz or null. Rows: one: how many went, null if it was not
--   our turn within wait_ms. Locks: the queue's (waited for) -> partitions (skip locked).
with held as materialized (
    select tidemill.await_turn(%(queue_id)s::uuid, %(wait_ms)s::integer) as is_ours
), gone as (
    -- a claim that has ended since this statement began has changed its rows, which are then looked at again
    delete from tidemill.queue_partitions p
    where p.ctid = any(array(
        select o.ctid from held h
        cross join unnest(%(partition_keys)s::text[]) as k (key)
        cross join lateral (
            select n.ctid from tidemill.queue_partitions n
            where n.queue_id = %(queue_id)s::uuid and n.partition_key = k.key and not n.is_ready and n.weight = 1
              and n.served_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(kept_ms)s::bigint / 1000.0)
            limit 1 for update skip locked) o
        where h.is_ours))
    returning 1
)
select case when h.is_ours then (select count(*) from gone) end from held h
