-- Revoke an API key; a repeat keeps the first time. Parameters: project_id uuid; id uuid. Rows: the key, if the project has it. Locks: key.
update tidemill.api_keys k
set revoked_at = coalesce(k.revoked_at, statement_timestamp())
where k.id = %(id)s::uuid and k.project_id = %(project_id)s::uuid
returning k.id::text, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
