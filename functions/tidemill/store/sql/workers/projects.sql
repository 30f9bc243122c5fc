-- The project with this id, or (null) the first two there are but the system's own, to tell the only one from one of many. Parameters: project_id uuid or null.
-- Rows: id, name. Locks: none.
select p.id::text, p.name from tidemill.projects p
where case when %(project_id)s::uuid is null then p.id <> tidemill.system_project() else p.id = %(project_id)s::uuid end
order by p.created_at
limit 2
