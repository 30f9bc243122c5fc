-- What the project's webhook was told, the newest first. Parameters: project_id uuid; before uuid or null (exclusive); limit integer.
-- Rows: at most limit. Locks: none.
select d.id::text, d.event, d.things, d.status, d.attempts, d.last_status, d.last_error, d.created_at, d.ended_at
from tidemill.webhook_deliveries d
where d.project_id = %(project_id)s::uuid and d.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
order by d.id desc
limit %(limit)s::integer
