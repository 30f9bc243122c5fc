-- Complete: deletes leases by (job_id, token) and writes one history row each; `jobs` is not touched.
-- Parameters: job_ids uuid[], tokens uuid[], results text[] (JSON or null), digests bigint[], all of one length, sorted by job_id;
--   now timestamptz or null. Rows: job_id, token, traits of every lease that was ours. Locks: leases -> executions (insert) -> unique_holds (by key).
with acks as materialized (
    select a.job_id, a.token, a.result, a.digest
    from unnest(%(job_ids)s::uuid[], %(tokens)s::uuid[], %(results)s::text[], %(digests)s::bigint[]) as a (job_id, token, result, digest)
), ended as (
    delete from tidemill.job_leases l
    using acks a
    where l.job_id = a.job_id and l.lease_token = a.token
    returning l.job_id, l.fence, l.lease_token, l.queue_id, l.worker_id, l.attempt, l.traits, l.run_at, l.claimed_at, l.started_at, l.limit_key,
              a.result, a.digest, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), history as (
    insert into tidemill.job_executions (
        job_id, fence, id, queue_id, worker_id, attempt_number, status, ack_digest, queued_at, started_at, finished_at, duration_ms,
        retention_until, result)
    select e.job_id, e.fence, e.lease_token, e.queue_id, e.worker_id, e.attempt, 'completed', e.digest, e.run_at,
           coalesce(e.started_at, e.claimed_at), e.now,
           greatest(0, extract(epoch from e.now - coalesce(e.started_at, e.claimed_at)) * 1000)::bigint,
           case when e.traits & 20 <> 0 then (
               select greatest(e.now + make_interval(secs => coalesce(j.retention_ms, q.retention_completed_ms) / 1000.0), j.unique_until)
               from tidemill.jobs j join tidemill.queues q on q.id = j.queue_id where j.id = e.job_id) end,
           e.result::jsonb
    from ended e
), freed as (
    delete from tidemill.unique_holds h
    where (h.project_id, h.kind, h.key) in (
        select u.project_id, u.kind, u.key
        from ended e
        join tidemill.unique_holds u on u.job_id = e.job_id and u.kind = 'unique'
        where e.traits & 3 <> 0
        order by u.key
        for update of u)
)
select e.job_id::text, e.lease_token::text, e.traits from ended e
where coalesce((
    select case when count(w.limit_key) > 0 then tidemill.free_places(array_agg(w.queue_id), array_agg(w.limit_key)) end
    from ended w where w.limit_key is not null), 0) >= 0
