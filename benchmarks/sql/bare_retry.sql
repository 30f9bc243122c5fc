-- What a retry cannot do without: the job, its entry, its dead letter. Nothing is looked at. Parameters: ids uuid[].
with moved as (
    update tidemill.jobs j
    set phase = 'moving', attempt_count = 0, final_reason = null, finalized_at = null, retention_until = null, run_at = statement_timestamp(), updated_at = statement_timestamp()
    where j.id = any(%(ids)s::uuid[])
    returning j.queue_id, j.priority, j.run_at, j.id
), entered as (
    insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id) select m.queue_id, m.priority, m.run_at, m.id from moved m
)
update tidemill.dead_letter_queue d
set resolved = true, resolved_at = statement_timestamp(), resolution_action = 'retry'
where d.job_id = any(%(ids)s::uuid[])
