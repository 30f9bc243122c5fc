-- Projects by id: those of a user's organizations, or one. Parameters: user_id uuid or null (any's); id uuid or null (all); org_id uuid or null (any);
--   after uuid or null (exclusive); limit integer. Rows: at most limit, each with the user's role (null without a user). Locks: none.
select p.id::text, p.name, p.org_id::text, m.role::text, p.created_at, p.updated_at
from tidemill.projects p
left join tidemill.organization_members m on m.org_id = p.org_id and m.user_id = %(user_id)s::uuid
where (%(id)s::uuid is null or p.id = %(id)s::uuid)
  and (%(user_id)s::uuid is null or p.org_id in (select o.org_id from tidemill.organization_members o where o.user_id = %(user_id)s::uuid))
  and (%(org_id)s::uuid is null or p.org_id = %(org_id)s::uuid) and (%(after)s::uuid is null or p.id > %(after)s::uuid)
order by p.id
limit %(limit)s::integer
