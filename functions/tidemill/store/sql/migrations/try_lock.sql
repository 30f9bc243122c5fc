-- Be the one migrator of this database until the transaction ends, or learn that another one is.
-- Never waits: a waiting statement would hold a snapshot, and the other one's concurrent index build waits for all of those.
-- Nobody stands in line for it, so that whoever tries when it is free has it; migrate() tries every 50 to 150 ms for five minutes.
-- The key is the word "tide" in ASCII. Parameters: none. Returns one row: locked boolean.
select pg_try_advisory_xact_lock(1953064037) as locked
