-- Where a release or discard goes on; a discard that is done ends. Parameters: project_id uuid; fingerprint text (hex); position uuid or null (from the
--   start); is_done boolean. Rows: none. Locks: quarantine (the caller holds it).
update tidemill.quarantine x
set position = %(position)s::uuid, verb = case when %(is_done)s::boolean then null else x.verb end
where x.project_id = %(project_id)s::uuid and x.fingerprint = decode(%(fingerprint)s::text, 'hex')
