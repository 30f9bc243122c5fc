-- How far the counters are folded, and what is known about open transactions: every id below `oldest` is of one that has ended.
-- Parameters: now timestamptz or null. Rows: one: folded_until, settled_until, marked_at, marked_xid, oldest (text), now; none while another
-- pass folds. Locks: the counter state (skip locked).
select s.folded_until, s.settled_until, s.marked_at, s.marked_xid::text, pg_snapshot_xmin(pg_current_snapshot())::text as oldest,
       coalesce(%(now)s::timestamptz, clock_timestamp()) as now
from tidemill.counter_state s
where s.id = 1
for update skip locked
