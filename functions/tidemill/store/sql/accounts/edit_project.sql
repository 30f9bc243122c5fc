-- Rename a project. Parameters: id uuid; name text. Rows: its id; none if the organization has another one of this name. Locks: project.
update tidemill.projects p set name = %(name)s::text, updated_at = clock_timestamp()
where p.id = %(id)s::uuid and not exists (
    select 1 from tidemill.projects o where o.org_id = p.org_id and o.name = %(name)s::text and o.id <> p.id)
returning p.id::text
