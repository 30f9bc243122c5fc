-- One database role per function, each with the least it needs. On AWS a function's IAM role may connect as its own database role
-- and as no other (docs/security.md has the table). Where nobody connects as them, as on a laptop, they are of no consequence.
--
-- Roles belong to the server, not to the database: several databases share them, and two migrators may make them at once.
-- A migrator that may not create roles leaves them out and says so: everything works, with one role for all.

do $$
declare
    logins constant text[] := array[
        'tidemill_authorizer', 'tidemill_enqueue', 'tidemill_claims', 'tidemill_admin', 'tidemill_scheduler', 'tidemill_worker'];
    -- Who may do what with accounts: the authorizer reads them, admin changes them, nobody else sees them.
    accounts constant text[] := array['users', 'organizations', 'organization_members', 'api_keys', 'sessions', 'signing_keys', 'audit_log'];
    name text;
begin
    if not (select r.rolcreaterole or r.rolsuper from pg_roles r where r.rolname = current_user) then
        raise notice 'tidemill: % may not create roles, so the functions have none of their own', current_user;
        return;
    end if;
    -- tidemill_jobs is the right to work on jobs; the logins have it by membership.
    foreach name in array array['tidemill_jobs'] || logins loop
        begin
            if not exists (select from pg_roles r where r.rolname = name) then
                execute format('create role %I %s inherit', name, case when name = 'tidemill_jobs' then 'nologin' else 'login' end);
            end if;
            if name <> 'tidemill_authorizer' and name <> 'tidemill_jobs' and not exists (
                select from pg_auth_members m where m.roleid = 'tidemill_jobs'::regrole and m.member = name::regrole) then
                execute format('grant tidemill_jobs to %I', name);
            end if;
            -- RDS: a member of rds_iam logs in with a signed token, and no longer with a password.
            if name <> 'tidemill_jobs' and exists (select from pg_roles r where r.rolname = 'rds_iam') then
                execute format('grant rds_iam to %I', name);
            end if;
        exception when duplicate_object or unique_violation then
            null; -- another database's migrator was faster
        end;
    end loop;

    grant usage on schema tidemill to tidemill_jobs, tidemill_authorizer;
    for name in
        select c.relname from pg_class c
        where c.relnamespace = 'tidemill'::regnamespace and c.relkind in ('r', 'p') and c.relname <> all (accounts)
          and c.relname not in ('schema_migrations', 'projects')
    loop
        execute format('grant select, insert, update, delete on tidemill.%I to tidemill_jobs', name);
    end loop;
    for name in select c.relname from pg_class c where c.relnamespace = 'tidemill'::regnamespace and c.relkind = 'v' loop
        execute format('grant select on tidemill.%I to tidemill_jobs', name);
    end loop;
    grant select on tidemill.projects, tidemill.schema_migrations to tidemill_jobs;
    grant insert, select (id) on tidemill.audit_log to tidemill_jobs; -- what was written there stays: no role may change or delete it

    grant select on tidemill.organizations, tidemill.organization_members, tidemill.projects, tidemill.api_keys,
        tidemill.sessions, tidemill.signing_keys to tidemill_authorizer;
    grant select (id, is_active) on tidemill.users to tidemill_authorizer;
    grant update (last_used_at) on tidemill.api_keys to tidemill_authorizer;

    grant select, insert, update, delete on tidemill.users, tidemill.organizations, tidemill.organization_members, tidemill.projects,
        tidemill.api_keys, tidemill.sessions, tidemill.signing_keys to tidemill_admin;
    grant select on tidemill.audit_log to tidemill_admin;

    grant select on tidemill.signing_keys to tidemill_enqueue; -- those that sign cursors, see below

    -- What somebody who is logged in may do is asked with each request; passwords and tokens are in other columns.
    grant select (id, is_active) on tidemill.users to tidemill_enqueue, tidemill_claims, tidemill_scheduler;
    grant select (user_id, org_id, role) on tidemill.organization_members to tidemill_enqueue, tidemill_claims, tidemill_scheduler;
    grant select (id, settings) on tidemill.organizations to tidemill_enqueue, tidemill_claims, tidemill_scheduler;
    grant select (id, family_id, user_id, revoked_at, expires_at) on tidemill.sessions
        to tidemill_enqueue, tidemill_claims, tidemill_scheduler;
    grant delete, update (rotated_at) on tidemill.sessions to tidemill_scheduler; -- prunes those that are over (the update locks them)

    -- The doctor looks at other sessions' snapshots.
    begin
        grant pg_read_all_stats to tidemill_admin;
    exception when insufficient_privilege then
        raise notice 'tidemill: % may not grant pg_read_all_stats: the doctor sees less', current_user;
    end;

    -- Where the authorizer could not reach the database, the functions look the key up themselves. (Hashes of 256 random bits.)
    grant select, update (last_used_at) on tidemill.api_keys to tidemill_enqueue, tidemill_claims, tidemill_scheduler;

    -- A statement that outlives the request it belongs to helps nobody. (Settings of a role in this database need no SET in a session.)
    foreach name in array array['tidemill_authorizer', 'tidemill_enqueue', 'tidemill_claims', 'tidemill_admin'] loop
        execute format('alter role %I in database %I set statement_timeout = %L', name, current_database(),
            case name when 'tidemill_authorizer' then '8s' else '28s' end);
        execute format('alter role %I in database %I set idle_in_transaction_session_timeout = %L', name, current_database(), '30s');
    end loop;

    -- Who reads keys that sign sessions can be anybody: enqueue sees the others only.
    alter table tidemill.signing_keys enable row level security;
    create policy signing_keys_of_accounts on tidemill.signing_keys to tidemill_admin, tidemill_authorizer using (true);
    create policy signing_keys_of_cursors on tidemill.signing_keys for select to tidemill_enqueue using (purpose = 'cursor');
end
$$;
