-- Makes what a fresh stage needs before anyone can call it: organization, owner, project, queue `default`, first API key.
-- What exists already is found by its natural key and stays as it is; two calls at once end with one of each.
-- organization, slug, email, full_name, project: text. password_hash: argon2id text. sets_password: true replaces the
-- password of an owner who exists and ends all logins, with a note in the audit log. key_id uuid (null: no key), key_name text, key_hash bytea(32), scopes text[].
-- One row: organization id, user id, project id, whether the owner has the password that was given. Locks in the order organizations, users, members, projects, queues, api_keys.
with ids as (
    select tidemill.uuid7_ticks(clock_timestamp()) as ticks
), organization as (
    insert into tidemill.organizations as o (id, name, slug)
    select tidemill.uuid7(ticks), %(organization)s, %(slug)s from ids
    on conflict (slug) do update set slug = excluded.slug
    returning o.id
), owner as (
    insert into tidemill.users as u (id, email, password_hash, full_name)
    select tidemill.uuid7(ticks + 1), %(email)s, %(password_hash)s, %(full_name)s from ids
    on conflict (email) do update
        set password_hash = case when %(sets_password)s::boolean then excluded.password_hash else u.password_hash end
    returning u.id, u.password_hash = %(password_hash)s as has_given_password, u.created_at < statement_timestamp() as was_there
), ended as (
    update tidemill.sessions s set revoked_at = clock_timestamp() from owner
    where %(sets_password)s::boolean and s.user_id = owner.id and s.revoked_at is null
), noted as (
    insert into tidemill.audit_log (org_id, actor_kind, action, target_kind, target_id)
    select organization.id, 'system', 'accounts.reset_password', 'user', owner.id::text from organization, owner
    where %(sets_password)s::boolean and owner.was_there
), member as (
    insert into tidemill.organization_members (org_id, user_id, role)
    select organization.id, owner.id, 'owner' from organization, owner
    on conflict (org_id, user_id) do nothing
), project as (
    insert into tidemill.projects as p (id, org_id, name, created_by)
    select tidemill.uuid7(ticks + 2), organization.id, %(project)s, owner.id from ids, organization, owner
    on conflict (org_id, name) do update set name = excluded.name
    returning p.id
), queue as (
    insert into tidemill.queues (id, project_id, name)
    select tidemill.uuid7(ticks + 3), project.id, 'default' from ids, project
    on conflict (project_id, name) do nothing
), api_key as (
    insert into tidemill.api_keys (id, project_id, name, key_hash, scopes, created_by)
    select %(key_id)s::uuid, project.id, %(key_name)s, %(key_hash)s, %(scopes)s::text[], owner.id from project, owner
    where %(key_id)s::uuid is not null
    on conflict (id) do nothing
)
select organization.id::text, owner.id::text, project.id::text, coalesce(owner.has_given_password, false) from organization, owner, project
