-- Prune: partitions that were served last longer than %(kept_ms)s ago, have nothing ready and the default weight, queue by queue.
-- Parameters: kept_ms bigint; limit integer (partitions); now timestamptz or null. Rows: queue_id, partition_keys text[], by who was served longest ago.
-- Locks: none.
with idle as materialized (
    select p.queue_id, p.partition_key, p.served_at
    from tidemill.queue_partitions p
    where not p.is_ready and p.weight = 1
      and p.served_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(kept_ms)s::bigint / 1000.0)
    order by p.served_at limit %(limit)s::integer
)
select i.queue_id::text, array_agg(i.partition_key) from idle i group by i.queue_id order by min(i.served_at)
