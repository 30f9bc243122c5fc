-- Batches of a project, newest first. Parameters: project_id uuid; before uuid or null; limit integer. Rows: the columns of show.sql.
select b.id::text, b.name, b.status::text, b.total_jobs, b.completed_jobs, b.failed_jobs, b.cancelled_jobs, b.callbacks, b.fired, b.error,
       b.created_at, b.sealed_at, b.finalized_at
from tidemill.job_batches b
where b.project_id = %(project_id)s::uuid and (%(before)s::uuid is null or b.id < %(before)s::uuid)
order by b.id desc
limit %(limit)s::integer
