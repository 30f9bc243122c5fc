-- A new organization with its first owner. Parameters: id, user_id uuid; name, slug text. Rows: its id; none if the slug is taken. Locks: none.
with made as (
    insert into tidemill.organizations as o (id, name, slug) values (%(id)s::uuid, %(name)s::text, %(slug)s::text)
    on conflict (slug) do nothing
    returning o.id
), owner as (
    insert into tidemill.organization_members (org_id, user_id, role) select made.id, %(user_id)s::uuid, 'owner' from made
)
select made.id::text from made
