-- Another role for a member. Parameters: org_id, user_id uuid; role text. Rows: the user's id, if it is a member. Locks: member.
update tidemill.organization_members m set role = %(role)s::tidemill.org_role
where m.org_id = %(org_id)s::uuid and m.user_id = %(user_id)s::uuid
returning m.user_id::text
