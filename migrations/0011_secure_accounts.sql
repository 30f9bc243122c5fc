-- Accounts: what the audit log is searched by.

-- squawk-ignore-file require-concurrent-index-creation
-- (Nothing has written the log before this version, so that these indexes are made on an empty table.)

-- One index per filter that names something; each ends in the order of the list.
create index audit_log_by_target on tidemill.audit_log (project_id, target_kind, target_id, id);
create index audit_log_by_actor on tidemill.audit_log (project_id, actor_id, id);
create index audit_log_by_action on tidemill.audit_log (project_id, action, id);
create index audit_log_by_org on tidemill.audit_log (org_id, id) where org_id is not null;

-- A family of refresh tokens ends at a fixed time after the login, however often it is renewed. (now() is read once: no rewrite.)
alter table tidemill.sessions add column family_started_at timestamptz not null default now();

-- Failed logins per account and per source address, in a fixed number of slots: whoever tries many names or comes from many
-- addresses takes others' slots once those have cooled down, and never more room. `key`: a keyed hash, so that nobody can aim.
create table tidemill.login_slots (
    kind text not null check (kind in ('account', 'address')),
    slot bigint not null check (slot between 0 and 65535),
    key bytea not null check (length(key) = 32),
    failures integer not null check (failures between 0 and 1000),
    last_at timestamptz not null,
    is_refused boolean not null,
    primary key (kind, slot)
) with (fillfactor = 70);
