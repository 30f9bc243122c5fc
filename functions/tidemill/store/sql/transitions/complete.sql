-- Complete: deletes leases by (job_id, token) and writes one history row each; `jobs` is not touched.
-- Parameters: job_ids uuid[], tokens uuid[], results text[] (JSON or null), digests bigint[], all of one length, sorted by job_id, each job once;
--   now timestamptz or null. Rows: job_id, token, traits of every lease that was ours. Locks: leases -> executions (insert) -> unique_holds (by key).
-- No join, so that no statistics can make it a slow one: rows are found by key, and width_bucket finds a row's place in the arrays.
with ended as (
    delete from tidemill.job_leases l
    where l.job_id = any(%(job_ids)s::uuid[])
      and l.lease_token = (%(tokens)s::uuid[])[width_bucket(l.job_id, %(job_ids)s::uuid[])]
    returning l.job_id, l.fence, l.lease_token, l.queue_id, l.worker_id, l.attempt, l.traits, l.run_at, l.claimed_at, l.started_at, l.limit_key, l.type_key,
              width_bucket(l.job_id, %(job_ids)s::uuid[]) as place, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), history as (
    insert into tidemill.job_executions (
        job_id, fence, id, queue_id, worker_id, attempt_number, status, ack_digest, queued_at, started_at, finished_at, duration_ms,
        retention_until, result)
    select e.job_id, e.fence, e.lease_token, e.queue_id, e.worker_id, e.attempt, 'completed', (%(digests)s::bigint[])[e.place], e.run_at,
           coalesce(e.started_at, e.claimed_at), e.now,
           greatest(0, extract(epoch from e.now - coalesce(e.started_at, e.claimed_at)) * 1000)::bigint,
           case when e.traits & 20 <> 0 then (
               select greatest(e.now + make_interval(secs => coalesce(j.retention_ms, q.retention_completed_ms) / 1000.0), j.unique_until)
               from tidemill.jobs j join tidemill.queues q on q.id = j.queue_id where j.id = e.job_id) end,
           (%(results)s::text[])[e.place]::jsonb
    from ended e
), freed as (
    delete from tidemill.unique_holds h
    where h.kind = 'unique' and h.job_id = any(array(
        select u.job_id from tidemill.unique_holds u
        where u.kind = 'unique' and u.job_id = any(array(select e.job_id from ended e where e.traits & 3 <> 0))
        order by u.key for update))
)
select e.job_id::text, e.lease_token::text, e.traits from ended e
where coalesce((
    select case when count(*) > 0 then tidemill.free_places(array_agg(w.queue_id) || array_agg(w.queue_id), array_agg(w.limit_key) || array_agg(w.type_key),
        %(now)s::timestamptz) end
    from ended w where w.limit_key is not null or w.type_key is not null), 0) >= 0
