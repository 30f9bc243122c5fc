-- Remove a project with its queues, policies, schedules and keys. Parameters: id uuid. Rows: its id. Locks: project -> what belongs to it.
delete from tidemill.projects p where p.id = %(id)s::uuid returning p.id::text
