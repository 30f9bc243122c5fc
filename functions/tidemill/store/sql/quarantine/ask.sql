-- An operator's word on a quarantined fingerprint; asking again changes nothing. release: it is quarantined no more from now on, its losses are forgotten,
--   and its jobs go back step by step. discard: its jobs are cancelled step by step, later ones are still set aside.
-- Parameters: project_id uuid; fingerprint text (hex); verb text. Rows: one: the verb that is under way now, if the project has the quarantine.
-- Locks: quarantine (no key update: whoever sets a job aside does not wait).
update tidemill.quarantine x
set verb = case when x.verb = 'release' then x.verb else %(verb)s::text end,
    position = case when x.verb is not distinct from %(verb)s::text or x.verb = 'release' then x.position end,
    is_quarantined = x.is_quarantined and %(verb)s::text <> 'release',
    recent_losses = case when %(verb)s::text = 'release' then '{}' else x.recent_losses end
where x.project_id = %(project_id)s::uuid and x.fingerprint = decode(%(fingerprint)s::text, 'hex') and x.quarantined_at is not null
returning x.verb
