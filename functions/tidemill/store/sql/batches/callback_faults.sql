-- What the database has against callbacks (an unknown or closed queue, an unknown policy), before a batch is created with them.
-- Parameters: project_id uuid; jobs text (a JSON array). Rows: one: fields text[], messages text[] by position, null where nothing is wrong. Locks: none.
select r.fields, r.messages
from tidemill.job_refusals(%(project_id)s::uuid, %(jobs)s::jsonb, '{}', '{}', '{}', '{}') as r
