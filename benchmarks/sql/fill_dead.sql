-- %(rows)s jobs that died an hour ago, of seven types and five classes of error. Parameters: rows bigint; project_id, queue_id uuid.
with given as materialized (
    select tidemill.uuid7(tidemill.uuid7_ticks(statement_timestamp() - interval '2 days') + i * 4096) as id, i,
           statement_timestamp() - interval '1 hour' as at
    from generate_series(1, %(rows)s::bigint) as i
), born as (
    insert into tidemill.jobs (
        id, project_id, queue_id, job_type, payload, phase, run_at, created_at, updated_at, attempt_count, fence,
        error_class, error_message, final_reason, finalized_at, retention_until)
    select g.id, %(project_id)s::uuid, %(queue_id)s::uuid, 'bench.' || g.i %% 7, jsonb_build_object('i', g.i), 'dead_letter', g.at,
           g.at - interval '47 hours', g.at, 5, 5, 'Boom' || g.i %% 5, 'it broke', 'attempts_exhausted', g.at, g.at + interval '30 days'
    from given g
)
insert into tidemill.dead_letter_queue (
    id, job_id, project_id, queue_id, job_type, payload_snapshot, failure_reason, attempt_count, error_class, last_error, moved_at)
select g.id, g.id, %(project_id)s::uuid, %(queue_id)s::uuid, 'bench.' || g.i %% 7, jsonb_build_object('i', g.i), 'attempts_exhausted', 5,
       'Boom' || g.i %% 5, 'it broke', g.at
from given g
