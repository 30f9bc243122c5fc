-- A new member. Parameters: org_id, user_id uuid; role text. Rows: the user's id; none if it is a member already. Locks: none.
insert into tidemill.organization_members as m (org_id, user_id, role)
values (%(org_id)s::uuid, %(user_id)s::uuid, %(role)s::tidemill.org_role)
on conflict (org_id, user_id) do nothing
returning m.user_id::text
