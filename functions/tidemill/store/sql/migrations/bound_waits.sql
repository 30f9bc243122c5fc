-- Limits for this transaction alone: wait for a table lock no longer than traffic may queue up behind us, work as long as it takes.
-- Parameters: lock_timeout_ms integer as text. Returns one row to ignore.
select
    set_config('lock_timeout', %(lock_timeout_ms)s, true),
    set_config('statement_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true)
