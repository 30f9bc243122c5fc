-- A batch. Parameters: project_id, batch_id uuid. Rows: id, name, status, total, completed, failed, cancelled, callbacks, fired, error, created_at, sealed_at, finalized_at.
select b.id::text, b.name, b.status::text, b.total_jobs, b.completed_jobs, b.failed_jobs, b.cancelled_jobs, b.callbacks, b.fired, b.error,
       b.created_at, b.sealed_at, b.finalized_at
from tidemill.job_batches b
where b.id = %(batch_id)s::uuid and b.project_id = %(project_id)s::uuid
