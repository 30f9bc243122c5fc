-- A new API key. Parameters: id, project_id uuid; name text; key_hash bytea; scopes text[]; expires_at timestamptz or null; created_by uuid or null.
-- Rows: the key. Locks: none.
insert into tidemill.api_keys as k (id, project_id, name, key_hash, scopes, expires_at, created_by)
values (%(id)s::uuid, %(project_id)s::uuid, %(name)s::text, %(key_hash)s::bytea, %(scopes)s::text[], %(expires_at)s::timestamptz, %(created_by)s::uuid)
returning k.id::text, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
