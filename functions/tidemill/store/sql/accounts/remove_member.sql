-- A member goes. Parameters: org_id, user_id uuid. Rows: the user's id, if it was one. Locks: member.
delete from tidemill.organization_members m where m.org_id = %(org_id)s::uuid and m.user_id = %(user_id)s::uuid returning m.user_id::text
