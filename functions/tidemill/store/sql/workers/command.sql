-- Leave a command for a worker's next heartbeat. Parameters: project_id, worker_id uuid; command text. Rows: one if it was there.
update tidemill.workers w set command = %(command)s::tidemill.worker_command
where w.id = %(worker_id)s::uuid and w.project_id = %(project_id)s::uuid
returning w.id::text
