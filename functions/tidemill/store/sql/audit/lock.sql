-- Let one change of a thing wait for the one before it, so that `before` is what that one left. Parameters: thing text. Rows: one. Locks: the thing's name, before all rows.
select pg_advisory_xact_lock(hashtextextended(%(thing)s::text, 0))
