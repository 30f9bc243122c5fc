-- A fingerprint that somebody has to work on, drawn among those that nobody is at: a sweep, a release or a discard. Parameters: project_id uuid and
--   fingerprint text (hex), or both null (any). Rows: project_id, fingerprint (hex), verb (null: sweep), position, is it swept.
-- Locks: quarantine (no key update, skip locked).
select x.project_id::text, encode(x.fingerprint, 'hex'), x.verb, x.position::text, x.swept_at is not null
from tidemill.quarantine x
where (x.project_id, x.fingerprint) in (
    select d.project_id, d.fingerprint from (
        select o.project_id, o.fingerprint from tidemill.quarantine o
        where (o.verb is not null or (o.is_quarantined and o.swept_at is null))
          and (%(project_id)s::uuid is null or (o.project_id = %(project_id)s::uuid and o.fingerprint = decode(%(fingerprint)s::text, 'hex')))
        limit 1000) d
    order by random() limit 20)
  and (x.verb is not null or (x.is_quarantined and x.swept_at is null))
limit 1
for no key update of x skip locked
