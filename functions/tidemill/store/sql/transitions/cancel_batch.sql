-- Cancel a batch that has not ended: it takes no more jobs and fires no callbacks. Parameters: project_id, batch_id uuid; now timestamptz or null.
-- Rows: status after it, if the batch exists. Locks: batch. Its members are cancelled one by one by the engine.
update tidemill.job_batches b
set status = case when b.status in ('open', 'sealed') then 'cancelled' else b.status end,
    finalized_at = coalesce(b.finalized_at, %(now)s::timestamptz, statement_timestamp()),
    updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
where b.id = %(batch_id)s::uuid and b.project_id = %(project_id)s::uuid
returning b.status::text
