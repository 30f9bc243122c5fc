-- Removes a rate class; its jobs are free of it. Parameters: project_id uuid; name text. Rows: its name, if there was one. Locks: rate class.
delete from tidemill.rate_classes r
where r.project_id = %(project_id)s::uuid and r.name = %(name)s::text
returning r.name::text
