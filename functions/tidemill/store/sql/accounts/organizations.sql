-- A user's organizations by id, or one of them. Parameters: user_id uuid; id uuid or null (all); after uuid or null (exclusive); limit integer.
-- Rows: at most limit, each with the user's role. Locks: none.
select o.id::text, o.name, o.slug, coalesce(o.settings -> 'payloads_hidden_from', '[]') as payloads_hidden_from, m.role::text, o.created_at
from tidemill.organization_members m
join tidemill.organizations o on o.id = m.org_id
where m.user_id = %(user_id)s::uuid and (%(id)s::uuid is null or o.id = %(id)s::uuid) and (%(after)s::uuid is null or o.id > %(after)s::uuid)
order by o.id
limit %(limit)s::integer
