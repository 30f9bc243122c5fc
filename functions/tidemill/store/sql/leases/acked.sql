-- Attempts that have ended already, to tell the exact repeat of an ack from a contradicting one. Parameters: job_ids uuid[], tokens uuid[].
-- Rows: job_id, token, ack_digest, the job's state now. Locks: none.
select x.job_id::text, x.id::text, x.ack_digest, s.status::text
from unnest(%(job_ids)s::uuid[], %(tokens)s::uuid[]) as g (job_id, token)
join tidemill.job_executions x on x.job_id = g.job_id and x.id = g.token
join tidemill.job_states s on s.id = x.job_id
