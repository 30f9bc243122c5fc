-- A sealed batch has ended, and these callbacks are being enqueued in this transaction. Parameters: batch_id uuid; status text; fired text[];
--   error text or null; now timestamptz or null. Rows: one if it was still sealed. Locks: batch.
update tidemill.job_batches b
set status = %(status)s::tidemill.batch_status, fired = b.fired || %(fired)s::text[], error = %(error)s::text,
    finalized_at = coalesce(%(now)s::timestamptz, statement_timestamp()), updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
where b.id = %(batch_id)s::uuid and b.status = 'sealed'
returning b.id::text
