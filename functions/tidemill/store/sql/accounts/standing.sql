-- What a logged-in user may do in a project or an organization. Parameters: user_id, family_id uuid; project_id uuid or null; org_id uuid or null.
-- Rows: one while the session lives: role (null: nothing to do with either), organization, whether payloads are hidden from that role. Locks: none.
select m.role::text, m.org_id::text, coalesce(o.settings -> 'payloads_hidden_from' ? m.role::text, false) as hides_payloads
from tidemill.users u
left join tidemill.projects p on p.id = %(project_id)s::uuid
left join tidemill.organization_members m on m.user_id = u.id and m.org_id = coalesce(p.org_id, %(org_id)s::uuid)
left join tidemill.organizations o on o.id = m.org_id
where u.id = %(user_id)s::uuid and u.is_active and exists (
    select 1 from tidemill.sessions s
    where s.family_id = %(family_id)s::uuid and s.user_id = u.id and s.revoked_at is null and s.expires_at > statement_timestamp())
