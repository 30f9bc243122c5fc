-- Has an organization an active owner beside this user? Parameters: org_id, user_id uuid. Rows: one if it has. Locks: none.
select true
from tidemill.organization_members m
join tidemill.users u on u.id = m.user_id and u.is_active
where m.org_id = %(org_id)s::uuid and m.role = 'owner' and m.user_id <> %(user_id)s::uuid
limit 1
