-- What a discard cannot do without. Parameters: ids uuid[].
update tidemill.dead_letter_queue d
set resolved = true, resolved_at = statement_timestamp(), resolution_action = 'discard'
where d.job_id = any(%(ids)s::uuid[])
