-- Sets aside waiting jobs that bear a quarantined fingerprint, among the next %(limit)s waiting jobs of the project (migration 0009). Parameters: project_id
--   uuid; fingerprint text (hex); limit integer; now timestamptz or null. Rows: job_id, traits of those set aside.
-- Locks: quarantine (no key update, skip locked) -> entries (skip locked) -> jobs -> unique_holds.
select s.job_id::text, s.traits
from tidemill.sweep_quarantined(%(project_id)s::uuid, decode(%(fingerprint)s::text, 'hex'), %(limit)s::integer, %(now)s::timestamptz) as s
