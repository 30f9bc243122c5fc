-- Up to when the counters are folded. Parameters: none. Rows: one: folded_until or null. Locks: none.
select s.folded_until from tidemill.counter_state s where s.id = 1
