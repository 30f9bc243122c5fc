-- Which of these names are queues of the project. Parameters: project_id uuid; names text[]. Rows: name. Locks: none.
select q.name::text from tidemill.queues q where q.project_id = %(project_id)s::uuid and q.name = any(%(names)s::text[]) limit 100
