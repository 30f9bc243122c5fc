-- Cancelled batches whose members are still being walked, oldest first, for the scheduler. Parameters: limit integer.
-- Rows: project_id, id, the member after which the walk goes on.
select b.project_id::text, b.id::text, b.cancel_after::text
from tidemill.job_batches b
where b.cancel_after is not null
order by b.finalized_at, b.id
limit %(limit)s::integer
