-- The ceiling of a drain: deletes the leases of the last batch, writes their history, and leases the next batch, in one statement.
-- Parameters: job_ids uuid[], tokens uuid[] (the last batch); queue_id, worker_id uuid; since timestamptz (watermark); batch integer.
-- Rows: job_id, token, run_at, job_type, payload.
with ended as (
    delete from tidemill.job_leases l
    where l.job_id = any(%(job_ids)s::uuid[]) and l.lease_token = any(%(tokens)s::uuid[])
    returning l.job_id, l.fence, l.lease_token, l.queue_id, l.worker_id, l.attempt, l.run_at, l.started_at
), history as (
    insert into tidemill.job_executions (
        job_id, fence, id, queue_id, worker_id, attempt_number, status, queued_at, started_at, finished_at, duration_ms)
    select e.job_id, e.fence, e.lease_token, e.queue_id, e.worker_id, e.attempt, 'completed', e.run_at, e.started_at, statement_timestamp(), 0
    from ended e
), taken as (
    delete from tidemill.job_queue_entries e
    where e.ctid = any(array(
        select d.ctid from tidemill.job_queue_entries d
        where d.queue_id = %(queue_id)s::uuid and d.priority = 0 and d.run_at >= %(since)s::timestamptz and d.run_at <= statement_timestamp()
        order by d.run_at, d.job_id limit %(batch)s::integer for update skip locked))
    returning e.queue_id, e.run_at, e.job_id
), chance as materialized (
    select uuid_send(gen_random_uuid()) as seed
), leased as (
    insert into tidemill.job_leases (
        job_id, lease_token, queue_id, worker_id, attempt, fence, priority, traits, run_at, claimed_at, started_at, lease_expires_at, lease_ms)
    select t.job_id, encode(substr(sha256(c.seed || uuid_send(t.job_id)), 1, 16), 'hex')::uuid, t.queue_id, %(worker_id)s::uuid,
           1, 1, 0, 0, t.run_at, statement_timestamp(), statement_timestamp(), statement_timestamp() + interval '60 seconds', 60000
    from taken t cross join chance c
    returning job_id, lease_token, run_at
)
select l.job_id, l.lease_token, l.run_at, j.job_type, j.payload::text
from leased l cross join lateral (select i.job_type, i.payload from tidemill.jobs i where i.id = l.job_id limit 1) j
