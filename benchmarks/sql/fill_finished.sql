-- %(rows)s jobs completed over the last day. Parameters: rows bigint; project_id, queue_id uuid.
with given as materialized (
    select tidemill.uuid7(tidemill.uuid7_ticks(statement_timestamp() - interval '1 day') + i * 300000) as id, i,
           statement_timestamp() - interval '1 day' + interval '23 hours' * (i::double precision / %(rows)s::bigint) as at
    from generate_series(1, %(rows)s::bigint) as i
), born as (
    insert into tidemill.jobs (id, project_id, queue_id, job_type, payload, phase, run_at, created_at, updated_at)
    select g.id, %(project_id)s::uuid, %(queue_id)s::uuid, 'bench.noop', jsonb_build_object('i', g.i), 'moving', g.at, g.at, g.at
    from given g
)
insert into tidemill.job_executions (
    job_id, fence, id, queue_id, attempt_number, status, queued_at, started_at, finished_at, duration_ms, created_at)
select g.id, 1, g.id, %(queue_id)s::uuid, 1, 'completed', g.at, g.at, g.at, 0, g.at from given g
