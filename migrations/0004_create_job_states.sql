-- The one place that says what state a job is in. API, page, explain and tests read this view; nothing else derives it.
-- Every join is a primary-key look-up, so a page of 50 rows costs 150 of them whatever the tables' sizes.

create view tidemill.job_states as
select
    j.id, j.project_id, j.queue_id, q.name as queue, j.scheduled_job_id, j.scheduled_for, j.batch_id, j.job_type,
    j.schema_version, j.priority, j.run_at, j.idempotency_key, j.unique_key, j.unique_window, j.unique_until,
    j.retry_policy_id, j.retry_policy, j.timeout_ms, j.concurrency_key, j.concurrency_limit, j.partition_key, j.weight,
    j.rate_class, j.sticky_worker, j.fingerprint, j.headers, j.tags, j.principal_id, j.correlation_id, j.traceparent,
    j.tracestate, j.trace_id, j.on_parent_failure, j.pending_parents, j.is_held, j.crash_count, j.phase,
    j.progress_current, j.progress_total, j.progress_message, j.error_class, j.error_message, j.final_reason,
    j.created_at, j.retention_ms,
    case
        when j.phase = 'waiting' then 'pending'
        when j.phase = 'cancelled' then 'cancelled'
        when j.phase = 'dead_letter' then 'dead_letter'
        when j.phase = 'quarantined' then 'quarantined'
        when l.started_at is not null then 'running'
        when l.job_id is not null then 'claimed'
        when e.run_at > statement_timestamp() then 'scheduled'
        when e.job_id is not null then 'queued'
        when x.job_id is not null then 'completed'
    end::tidemill.job_status as status,
    coalesce(l.attempt, e.attempt_count, x.attempt_number, j.attempt_count) as attempt_count,
    coalesce(l.fence, e.fence, x.fence, j.fence) as fence,
    coalesce(j.max_attempts_override,
        case when jsonb_typeof(j.retry_policy -> 'max_attempts') = 'number' then (j.retry_policy ->> 'max_attempts')::integer end,
        p.max_attempts, 5) as max_attempts,
    l.worker_id as locked_by, l.claimed_at as locked_at, l.started_at, l.lease_expires_at, l.cancel_requested_at,
    coalesce(j.finalized_at, x.finished_at) as finalized_at,
    x.finished_at as completed_at,
    greatest(j.updated_at, l.claimed_at, l.started_at, x.finished_at) as updated_at
from tidemill.jobs j
join tidemill.queues q on q.id = j.queue_id
left join tidemill.retry_policies p on p.id = coalesce(j.retry_policy_id, q.default_retry_policy_id)
left join tidemill.job_leases l on l.job_id = j.id
left join tidemill.job_queue_entries e
    on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
left join tidemill.job_executions x on x.job_id = j.id and x.status = 'completed';

-- The claim's flags of a job, from its own columns: 1 holds its unique key until final, 2 until it starts, 4 until a time,
-- 8 member of a batch, 16 kept for a time of its own, 32 passes gates, 64 others depend on it.
create function tidemill.job_traits(job tidemill.jobs) returns smallint
language sql immutable parallel safe
return (case job.unique_window when 'running' then 1 when 'pending' then 2 when 'ttl' then 4 else 0 end
        | case when job.batch_id is not null then 8 else 0 end
        | case when job.retention_ms is not null then 16 else 0 end
        | case when num_nonnulls(job.concurrency_limit, job.rate_class, job.partition_key, job.sticky_worker) > 0 then 32 else 0 end
        | case when job.has_children then 64 else 0 end)::smallint;
