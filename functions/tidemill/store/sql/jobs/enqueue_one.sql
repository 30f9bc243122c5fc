-- Enqueue one job. Parameters: project_id uuid; job text (a JSON object); atomic boolean; now timestamptz or null.
-- Rows: one, of one JSON array: job_id, state, deduplicated, code, field, message; a row of columns would cost the server twice as much to plan.
-- Locks: as in enqueue.sql.
select tidemill.admit_one(%(project_id)s::uuid, %(job)s::jsonb, %(atomic)s::boolean, %(now)s::timestamptz)
