-- Discard: takes a dead job out of the open dead letters; the job stays what it is, and may still be retried.
-- Parameters: project_id uuid; job_id uuid; by uuid or null; note text or null; now timestamptz or null. Rows: ids of the dead letters that were open.
-- Locks: dead_letter_queue.
update tidemill.dead_letter_queue d
set resolved = true, resolution_action = 'discard', resolved_at = coalesce(%(now)s::timestamptz, statement_timestamp()), resolved_by = %(by)s::uuid,
    note = coalesce(%(note)s::text, d.note)
where d.job_id = %(job_id)s::uuid and d.project_id = %(project_id)s::uuid and not d.resolved
returning d.id::text
