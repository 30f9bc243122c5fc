-- The clock, and a transaction id of our own: every one that had an id by then has a smaller one, every one that gets an id later a greater one.
-- Parameters: now timestamptz or null. Rows: one: at, xid (text). Must be a transaction by itself. Locks: none.
select coalesce(%(now)s::timestamptz, clock_timestamp()) as at, pg_current_xact_id()::text as xid
