-- How long this transaction waits for a lock: no longer than claims may queue up behind it. Parameters: lock_timeout_ms text. Rows: one to ignore.
select set_config('lock_timeout', %(lock_timeout_ms)s, true)
