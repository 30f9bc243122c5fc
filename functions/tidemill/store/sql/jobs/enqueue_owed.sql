-- Enqueue what a batch owes: its callbacks go in however full their queue is, because nobody would ask again. Parameters and rows as in enqueue.sql.
-- Locks: unique_holds (by key).
select r."index", r.job_id::text, r.state::text, r.deduplicated, r.code, r.field, r.message
from tidemill.enqueue_results(%(project_id)s::uuid, %(jobs)s::jsonb, %(atomic)s::boolean, %(now)s::timestamptz) as r
