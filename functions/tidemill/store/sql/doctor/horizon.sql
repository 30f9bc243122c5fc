-- What holds vacuum back: the oldest of open transactions, prepared transactions and replication slots. Parameters: none.
-- Rows: at most one, the oldest: kind, name, how long it has been so in seconds (null: unknown), how many transactions ago. Locks: none.
select h.kind, h.name, h.secs, h.transactions
from (
    select 'transaction' as kind, 'of ' || coalesce(nullif(a.application_name, ''), a.usename::text, '?') || ', process ' || a.pid as name,
           extract(epoch from clock_timestamp() - a.xact_start)::double precision as secs, age(coalesce(a.backend_xmin, a.backend_xid))::bigint as transactions
    from pg_stat_activity a
    where (a.backend_xmin is not null or a.backend_xid is not null) and a.pid <> pg_backend_pid() and a.backend_type <> 'autovacuum worker'
    union all
    select 'prepared transaction', p.gid, extract(epoch from clock_timestamp() - p.prepared)::double precision, age(p.transaction)::bigint
    from pg_prepared_xacts p
    union all
    select 'replication slot', s.slot_name::text, null, greatest(age(s.xmin), age(s.catalog_xmin))::bigint
    from pg_replication_slots s
    where s.xmin is not null
) h
order by h.secs desc nulls last, h.transactions desc
limit 1
