-- An organization's members by id, or one of them. Parameters: org_id uuid; id uuid or null (all); after uuid or null (exclusive); limit integer.
-- Rows: at most limit. Locks: none.
select u.id::text, u.email, u.full_name, u.is_active, m.role::text, m.created_at as member_since
from tidemill.organization_members m
join tidemill.users u on u.id = m.user_id
where m.org_id = %(org_id)s::uuid and (%(id)s::uuid is null or u.id = %(id)s::uuid) and (%(after)s::uuid is null or m.user_id > %(after)s::uuid)
order by m.user_id
limit %(limit)s::integer
