-- Enqueue: creates jobs through the one way in. Parameters: project_id uuid; jobs text (a JSON array); atomic boolean;
--   plain boolean (no job has a field beyond tidemill.plain_fields()); now timestamptz or null.
-- Rows: one per job in order: index, job_id, state, deduplicated, code, field, message. Locks: fill locks of bounded queues (by id) -> unique_holds (by key).
select r."index", r.job_id::text, r.state::text, r.deduplicated, r.code, r.field, r.message
from tidemill.admit_many(%(project_id)s::uuid, %(jobs)s::jsonb, %(atomic)s::boolean, %(plain)s::boolean, %(now)s::timestamptz) as r
