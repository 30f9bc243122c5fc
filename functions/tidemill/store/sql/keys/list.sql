-- A project's API keys in the order they were made. Parameters: project_id uuid; after uuid or null (exclusive); limit integer. Rows: at most limit. Locks: none.
select k.id::text, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
from tidemill.api_keys k
where k.project_id = %(project_id)s::uuid and k.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
order by k.id
limit %(limit)s::integer
