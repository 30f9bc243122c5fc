-- A worker's sign of life; at most one history row per %(sample_ms)s. Parameters: worker_id, project_id uuid; active integer; cpu, memory double precision or null;
--   status text or null (keep); sample_ms bigint; now timestamptz or null. Rows: the command waiting for it (taken by this), or none if the row is gone.
with before as (
    select w.id, w.command, w.last_seen_at from tidemill.workers w
    where w.id = %(worker_id)s::uuid and w.project_id = %(project_id)s::uuid for no key update
), seen as (
    update tidemill.workers w
    set last_seen_at = coalesce(%(now)s::timestamptz, statement_timestamp()), active_job_count = %(active)s::integer,
        cpu_percent = %(cpu)s::double precision, memory_mb = %(memory)s::double precision,
        status = coalesce(%(status)s::tidemill.worker_status, w.status), command = null
    from before b where w.id = b.id
), sampled as (
    insert into tidemill.worker_heartbeats (worker_id, ts, active_job_count, cpu_percent, memory_mb)
    select b.id, coalesce(%(now)s::timestamptz, statement_timestamp()), %(active)s::integer, %(cpu)s::double precision, %(memory)s::double precision
    from before b
    where not exists (
        select 1 from tidemill.worker_heartbeats h where h.worker_id = b.id
          and h.ts > coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(sample_ms)s::bigint / 1000.0))
)
select b.command::text from before b
