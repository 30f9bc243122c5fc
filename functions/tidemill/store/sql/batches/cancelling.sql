-- Cancelled batches of the last day that still have members in motion, for the scheduler. Parameters: limit integer; now timestamptz or null. Rows: project_id, id.
select b.project_id::text, b.id::text
from tidemill.job_batches b
where b.status = 'cancelled' and b.finalized_at > coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '1 day'
  and b.completed_jobs + b.failed_jobs + b.cancelled_jobs < b.total_jobs
order by b.finalized_at
limit %(limit)s::integer
