-- An API key that is valid now. Parameters: key_id uuid. Rows: project, digest, scopes, whether a use is to be noted. Locks: none.
select k.project_id::text, k.key_hash, k.scopes, coalesce(k.last_used_at < statement_timestamp() - interval '1 minute', true) as is_use_untold
from tidemill.api_keys k
where k.id = %(key_id)s::uuid and k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp())
