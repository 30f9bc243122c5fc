-- Notes how far the counters are folded. Parameters: folded_until, settled_until, marked_at timestamptz or null; marked_xid text or null. Rows: none.
-- Locks: the counter state (held already by state.sql).
update tidemill.counter_state s
set folded_until = %(folded_until)s::timestamptz, settled_until = %(settled_until)s::timestamptz,
    marked_at = %(marked_at)s::timestamptz, marked_xid = %(marked_xid)s::xid8
where s.id = 1
