-- Let a live API key end after an overlap, or when it would have ended if that is earlier. Parameters: project_id, id uuid; overlap_ms bigint.
-- Rows: the key; none if the project has no such live one. Locks: key.
update tidemill.api_keys k
set expires_at = least(k.expires_at, statement_timestamp() + make_interval(secs => %(overlap_ms)s::bigint / 1000.0))
where k.id = %(id)s::uuid and k.project_id = %(project_id)s::uuid and k.revoked_at is null
  and (k.expires_at is null or k.expires_at > statement_timestamp())
returning k.id::text, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
