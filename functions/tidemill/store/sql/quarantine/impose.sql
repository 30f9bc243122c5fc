-- Quarantines a fingerprint whose losses were just counted; a release that is under way ends with it. Parameters: project_id uuid; fingerprint text (hex);
--   now timestamptz or null. Rows: one if it was not quarantined before. Locks: quarantine (the caller has counted: it holds the row).
update tidemill.quarantine x
set is_quarantined = true, quarantined_at = coalesce(%(now)s::timestamptz, statement_timestamp()), verb = null, position = null,
    swept_at = null, sweep_position = null
where x.project_id = %(project_id)s::uuid and x.fingerprint = decode(%(fingerprint)s::text, 'hex') and not x.is_quarantined
returning 1
