-- Enqueue within an application's own transaction. Parameters: project_id uuid; jobs text (a JSON array).
-- Rows: one per job in order: index, job_id, state, deduplicated. Raises TM422 and TM409. Locks: unique_holds (by key).
-- `cast` instead of two colons: SQLAlchemy reads colons as parameters.
select r."index", cast(r.job_id as text), cast(r.state as text), r.deduplicated
from tidemill.enqueue(cast(%(project_id)s as uuid), cast(%(jobs)s as jsonb)) as r
