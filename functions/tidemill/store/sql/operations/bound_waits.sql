-- How long each statement of this transaction waits for a lock; ends with the transaction. Parameters: lock_ms text. Rows: none that matter.
select set_config('lock_timeout', %(lock_ms)s::text, true)
