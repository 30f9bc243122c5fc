-- Whether the instant of any active schedule has come that nobody has decided about. Parameters: now timestamptz or null. Rows: one: boolean. Locks: none.
select exists (
    select 1 from tidemill.scheduled_jobs s
    where s.is_active and s.next_run_at <= coalesce(%(now)s::timestamptz, statement_timestamp()))
