-- Sets a partition's weight; one that is not known yet is made, idle. Parameters: queue_id uuid; partition_key text; weight integer. Rows: one: the weight before, or
-- null. Locks: the queue's, waited for (claims try it, hold it for one statement, and give way to whoever waits) -> the partition. As docs/adr/0009 has it.
with held as materialized (
    select pg_advisory_xact_lock(tidemill.queue_lock(%(queue_id)s::uuid)) as lock
), before as materialized (
    select (select p.weight from tidemill.queue_partitions p where p.queue_id = %(queue_id)s::uuid and p.partition_key = %(partition_key)s::text) as weight
    from held h
), kept as (
    insert into tidemill.queue_partitions as p (queue_id, partition_key, weight, virtual_finish)
    select %(queue_id)s::uuid, %(partition_key)s::text, %(weight)s::integer,
           coalesce((select c.virtual_time from tidemill.queue_clocks c where c.queue_id = %(queue_id)s::uuid), 0)
    from before b
    on conflict (queue_id, partition_key) do update set weight = excluded.weight
    returning 1
)
select b.weight from before b, kept k
