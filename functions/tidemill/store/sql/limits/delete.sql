-- Removes a standing limit. Parameters: project_id uuid; name text. Rows: its job type (null: of a queue), if there was one. Locks: limit.
delete from tidemill.concurrency_limits c
where c.project_id = %(project_id)s::uuid and c.name = %(name)s::text
returning c.job_type::text
