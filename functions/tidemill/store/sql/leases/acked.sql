-- Attempts that have ended already, to tell the exact repeat of an ack from a contradicting one. Parameters: job_ids uuid[], tokens uuid[].
-- Rows: job_id, token, ack_digest, the job's state now. Locks: none.
select x.job_id::text, x.id::text, x.ack_digest, s.status::text
from unnest(%(job_ids)s::uuid[], %(tokens)s::uuid[]) as g (job_id, token)
cross join lateral (select * from tidemill.job_executions e where e.job_id = g.job_id and e.id = g.token limit 1) x
cross join lateral (select t.status from tidemill.job_states t where t.id = x.job_id limit 1) s
