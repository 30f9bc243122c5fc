-- Enqueue within an application's own transaction. Parameters: project_id uuid; jobs text (a JSON array).
-- Rows: one per job in order: index, job_id, state, deduplicated; or one that says in code (TM422, TM409, TM429) and message why none is stored.
-- Locks: unique_holds (by key).
-- `cast` instead of two colons: SQLAlchemy reads colons as parameters.
select r."index", cast(r.job_id as text), cast(r.state as text), r.deduplicated, r.code, r.message
from tidemill.enqueue_or_tell(cast(%(project_id)s as uuid), cast(%(jobs)s as jsonb)) as r
