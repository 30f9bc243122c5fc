-- A queue may go when nobody can put anything into it any more. Transactions that have written are known by their ids; but a REPEATABLE READ transaction that has
-- only read so far has none, and still sees the queue as open. Its job would be stored for a queue that is no longer there, and never run.

-- Whether a client of this database still works with a snapshot from before the transaction p_xid was over. As the owner, who may see what other roles' clients
-- do if it is a superuser or a member of pg_read_all_stats (on RDS the master user is); else only those of its own role are seen.
create function tidemill.is_seen_from_before(p_xid xid8) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp
return exists (
    select 1 from pg_stat_activity a
    where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend' and age(a.backend_xmin) >= age(p_xid::xid));
