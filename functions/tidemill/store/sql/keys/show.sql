-- One API key of a project. Parameters: project_id, id uuid. Rows: the key, if the project has it. Locks: none.
select k.id::text, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
from tidemill.api_keys k
where k.id = %(id)s::uuid and k.project_id = %(project_id)s::uuid
