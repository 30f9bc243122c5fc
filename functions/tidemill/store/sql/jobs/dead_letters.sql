-- When a job became a dead letter, and what became of that; the last 100. Parameters: job_id uuid. Rows: oldest first. Locks: none.
select d.moved_at, d.failure_reason, d.attempt_count, d.resolved_at, d.resolution_action
from (select * from tidemill.dead_letter_queue d where d.job_id = %(job_id)s::uuid order by d.moved_at desc limit 100) d
order by d.moved_at
