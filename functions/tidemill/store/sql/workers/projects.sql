-- The project with this id, or (null) the first two there are, to tell the only one from one of many. Parameters: project_id uuid or null.
-- Rows: id, name. Locks: none.
select p.id::text, p.name from tidemill.projects p
where %(project_id)s::uuid is null or p.id = %(project_id)s::uuid
order by p.created_at
limit 2
