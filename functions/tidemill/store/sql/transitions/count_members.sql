-- Batch counters move with their members. Parameters: batch_ids uuid[], outcomes text[] (completed | failed | cancelled | total), deltas integer[] of one length;
--   reopen boolean: a member of an ended batch starts again; now timestamptz or null.
-- Rows: one per batch: id, project_id, status, total, completed, failed, cancelled, callbacks, fired. Locks: batches, in id order.
with given as (
    select g.batch_id, g.outcome, g.delta from unnest(%(batch_ids)s::uuid[], %(outcomes)s::text[], %(deltas)s::integer[]) as g (batch_id, outcome, delta)
), tally as materialized (
    select g.batch_id,
           coalesce(sum(g.delta) filter (where g.outcome = 'total'), 0) as total,
           coalesce(sum(g.delta) filter (where g.outcome = 'completed'), 0) as completed,
           coalesce(sum(g.delta) filter (where g.outcome = 'failed'), 0) as failed,
           coalesce(sum(g.delta) filter (where g.outcome = 'cancelled'), 0) as cancelled
    from given g group by g.batch_id
), locked as materialized (
    select b.id from tidemill.job_batches b where b.id in (select t.batch_id from tally t) order by b.id for update
)
update tidemill.job_batches b
set total_jobs = b.total_jobs + t.total, completed_jobs = b.completed_jobs + t.completed, failed_jobs = b.failed_jobs + t.failed,
    cancelled_jobs = b.cancelled_jobs + t.cancelled,
    status = case when %(reopen)s::boolean and b.status in ('completed', 'completed_with_failures') then 'sealed' else b.status end,
    finalized_at = case when %(reopen)s::boolean and b.status in ('completed', 'completed_with_failures') then null else b.finalized_at end,
    updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
from tally t, locked l
where b.id = l.id and t.batch_id = l.id
returning b.id::text, b.project_id::text, b.status::text, b.total_jobs, b.completed_jobs, b.failed_jobs, b.cancelled_jobs, b.callbacks, b.fired
