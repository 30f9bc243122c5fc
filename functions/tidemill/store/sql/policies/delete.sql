-- Remove a retry policy. Jobs and queues that name it fall back to the default. Parameters: project_id uuid; name text. Rows: its id, if there. Locks: policy -> queues.
delete from tidemill.retry_policies p
where p.project_id = %(project_id)s::uuid and p.name = %(name)s::text
returning p.id::text
