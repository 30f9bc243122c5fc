-- Prune: notes of the audit log that are old enough, the oldest first (migration 0017). Parameters: kept_days, limit integer. Rows: one: how many. Locks: audit log.
select tidemill.prune_audit_log(%(kept_days)s::integer, %(limit)s::integer)
