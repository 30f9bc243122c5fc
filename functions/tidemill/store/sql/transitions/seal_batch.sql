-- Seal: an open batch takes no more jobs; sealing again changes nothing. Parameters: project_id, batch_id uuid; now timestamptz or null.
-- Rows: the columns of count_members.sql if the batch exists. Locks: batch.
update tidemill.job_batches b
set status = case when b.status = 'open' then 'sealed' else b.status end,
    sealed_at = case when b.status = 'open' then coalesce(%(now)s::timestamptz, statement_timestamp()) else b.sealed_at end
where b.id = %(batch_id)s::uuid and b.project_id = %(project_id)s::uuid
returning b.id::text, b.project_id::text, b.status::text, b.total_jobs, b.completed_jobs, b.failed_jobs, b.cancelled_jobs, b.callbacks, b.fired
