-- Cancel a batch that has not ended: it takes no more jobs and fires no callbacks. Parameters: project_id, batch_id uuid; now timestamptz or null.
-- Rows: status after it, and where the walk over its members begins (null: nothing to walk), if the batch exists. Locks: batch.
update tidemill.job_batches b
set status = case when b.status in ('open', 'sealed') then 'cancelled' else b.status end,
    cancel_after = case when b.status in ('open', 'sealed') then '00000000-0000-0000-0000-000000000000'::uuid else b.cancel_after end,
    finalized_at = coalesce(b.finalized_at, %(now)s::timestamptz, statement_timestamp()),
    updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
where b.id = %(batch_id)s::uuid and b.project_id = %(project_id)s::uuid
returning b.status::text, b.cancel_after::text
