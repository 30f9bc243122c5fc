-- A job's ended attempts, the oldest first; the last %(limit)s of them. Parameters: job_id uuid; limit integer. Rows: one per attempt. Locks: none.
select x.* from (
    select x.id::text, x.fence, x.attempt_number as attempt, x.status::text, x.worker_id::text, x.exit_code, x.queued_at, x.started_at, x.finished_at,
           x.duration_ms, x.error_class, x.error_message, x.error_stack, x.result::text
    from tidemill.job_executions x
    where x.job_id = %(job_id)s::uuid
    order by x.fence desc
    limit %(limit)s::integer
) x
order by x.fence
