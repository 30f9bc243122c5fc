-- %(rows)s jobs scheduled for the next thirty days. Parameters: rows bigint; project_id, queue_id uuid.
with given as materialized (
    select tidemill.uuid7(tidemill.uuid7_ticks(statement_timestamp() - interval '2 days') + i) as id, i,
           statement_timestamp() + interval '1 day' + interval '29 days' * (i::double precision / %(rows)s::bigint) as run_at
    from generate_series(1, %(rows)s::bigint) as i
), born as (
    insert into tidemill.jobs (id, project_id, queue_id, job_type, payload, phase, run_at, created_at, updated_at)
    select g.id, %(project_id)s::uuid, %(queue_id)s::uuid, 'bench.noop', jsonb_build_object('i', g.i), 'moving', g.run_at,
           statement_timestamp() - interval '2 days', statement_timestamp() - interval '2 days'
    from given g
)
insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id)
select %(queue_id)s::uuid, 0, g.run_at, g.id from given g
