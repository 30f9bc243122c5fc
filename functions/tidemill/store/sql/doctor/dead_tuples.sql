-- The tables with the most dead rows. Parameters: least bigint: fewer are not told. Rows: at most 5: table, dead rows, live rows, last vacuum. Locks: none.
select s.relname, s.n_dead_tup, s.n_live_tup, greatest(s.last_vacuum, s.last_autovacuum)
from pg_stat_user_tables s
where s.schemaname = 'tidemill' and s.n_dead_tup >= %(least)s::bigint
order by s.n_dead_tup desc
limit 5
