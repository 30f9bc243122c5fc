-- Schema, enums, and everything that says who owns what: organizations, users, projects, keys, queues, policies.
-- Rows here are few and change rarely; nothing in this file is on the hot path.

create schema if not exists tidemill;

create type tidemill.org_role as enum ('viewer', 'operator', 'admin', 'owner');
create type tidemill.retry_strategy as enum ('fixed', 'linear', 'exponential');
create type tidemill.saturation_rule as enum ('queue', 'cancel_running');
create type tidemill.worker_status as enum ('running', 'quiet', 'draining', 'stopped');
create type tidemill.worker_command as enum ('quiet', 'resume', 'restart', 'terminate');

-- A name that may appear in a route: API.md §0.
create domain tidemill.name as text
    check (length(value) between 1 and 200 and value ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$');

create table tidemill.users (
    id uuid primary key,
    email text not null unique check (length(email) between 3 and 320 and email = lower(email)),
    password_hash text check (length(password_hash) <= 512),
    full_name text not null default '' check (length(full_name) <= 200),
    is_active boolean not null default true,
    failed_logins integer not null default 0 check (failed_logins >= 0),
    locked_until timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create table tidemill.organizations (
    id uuid primary key,
    name text not null check (length(name) between 1 and 200),
    slug text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    settings jsonb not null default '{}',
    created_at timestamptz not null default clock_timestamp()
);

create table tidemill.organization_members (
    org_id uuid not null references tidemill.organizations (id) on delete cascade,
    user_id uuid not null references tidemill.users (id) on delete cascade,
    role tidemill.org_role not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (org_id, user_id)
);
create index organization_members_by_user on tidemill.organization_members (user_id);

create table tidemill.projects (
    id uuid primary key,
    org_id uuid not null references tidemill.organizations (id),
    name text not null check (length(name) between 1 and 200),
    created_by uuid references tidemill.users (id),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    unique (org_id, name)
);

-- Supersedes projects.api_key_hash: several live keys per project, so that they can be rotated.
create table tidemill.api_keys (
    id uuid primary key,
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    name text not null check (length(name) between 1 and 200),
    key_hash bytea not null check (length(key_hash) = 32),
    scopes text[] not null
        check (cardinality(scopes) between 1 and 5 and scopes <@ array['enqueue', 'work', 'read', 'operate', 'admin']),
    created_by uuid,
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);
create index api_keys_by_project on tidemill.api_keys (project_id, id);

create table tidemill.sessions (
    id uuid primary key,
    user_id uuid not null references tidemill.users (id) on delete cascade,
    family_id uuid not null,
    refresh_hash bytea not null unique check (length(refresh_hash) = 32),
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    rotated_at timestamptz,
    revoked_at timestamptz
);
create index sessions_by_family on tidemill.sessions (family_id);
create index sessions_by_user on tidemill.sessions (user_id);
create index sessions_by_expiry on tidemill.sessions (expires_at);

-- Keys that sign what the API hands out and takes back (cursors, session tokens); rotated by adding a row.
create table tidemill.signing_keys (
    kid uuid primary key default gen_random_uuid(),
    purpose text not null check (purpose in ('cursor', 'session')),
    secret bytea not null check (length(secret) >= 32),
    created_at timestamptz not null default clock_timestamp(),
    retired_at timestamptz
);
insert into tidemill.signing_keys (purpose, secret)
select p, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
from unnest(array['cursor', 'session']) as p;

create table tidemill.audit_log (
    id bigint generated always as identity primary key,
    project_id uuid,
    org_id uuid,
    actor_kind text not null check (actor_kind in ('api_key', 'user', 'system')),
    actor_id uuid,
    action text not null check (length(action) <= 100),
    target_kind text not null check (length(target_kind) <= 50),
    target_id text not null check (length(target_id) <= 300),
    before jsonb,
    after jsonb,
    request_id text check (length(request_id) <= 200),
    at timestamptz not null default clock_timestamp()
);
create index audit_log_by_project on tidemill.audit_log (project_id, id);

create table tidemill.retry_policies (
    id uuid primary key,
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    name tidemill.name not null,
    strategy tidemill.retry_strategy not null default 'exponential',
    base_delay_ms bigint not null default 5000 check (base_delay_ms between 0 and 2678400000),
    multiplier double precision not null default 2 check (multiplier between 1 and 100),
    max_delay_ms bigint not null default 3600000 check (max_delay_ms between 0 and 2678400000),
    max_attempts integer not null default 5 check (max_attempts between 1 and 1000),
    jitter boolean not null default true,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    unique (project_id, name)
);

create table tidemill.queues (
    id uuid primary key,
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    name tidemill.name not null,
    priority smallint not null default 0,
    weight integer not null default 1 check (weight between 1 and 1000000),
    max_concurrency integer check (max_concurrency between 0 and 1000000),
    on_saturated tidemill.saturation_rule not null default 'queue',
    is_paused boolean not null default false,
    is_closed boolean not null default false,
    default_retry_policy_id uuid references tidemill.retry_policies (id) on delete set null,
    visibility_timeout_secs integer not null default 60 check (visibility_timeout_secs between 1 and 43200),
    max_unfinished_jobs bigint check (max_unfinished_jobs >= 0),
    retention_completed_ms bigint not null default 604800000 check (retention_completed_ms between 0 and 315360000000),
    retention_cancelled_ms bigint not null default 604800000 check (retention_cancelled_ms between 0 and 315360000000),
    retention_dead_letter_ms bigint not null default 2592000000 check (retention_dead_letter_ms between 0 and 315360000000),
    quarantine_after integer not null default 3 check (quarantine_after between 1 and 1000),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    unique (project_id, name)
);

-- The priorities a queue has ever used: the claim walks these instead of searching for them, which dead rows would make dear.
-- Two transactions that bring the same new one at once both write it, so that neither waits for the other: read them distinct.
create table tidemill.queue_levels (
    queue_id uuid not null references tidemill.queues (id) on delete cascade,
    priority smallint not null,
    id uuid not null default gen_random_uuid(),
    primary key (queue_id, priority, id)
);

create table tidemill.workers (
    id uuid primary key,
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    name text not null check (length(name) between 1 and 200),
    hostname text not null default '' check (length(hostname) <= 255),
    pid bigint,
    version text not null default '' check (length(version) <= 100),
    subscribed_queues uuid[] not null default '{}',
    job_types text[],
    max_concurrency integer not null check (max_concurrency between 1 and 10000),
    lease_ms bigint not null check (lease_ms between 1000 and 43200000),
    status tidemill.worker_status not null default 'running',
    command tidemill.worker_command,
    active_job_count integer not null default 0,
    cpu_percent double precision,
    memory_mb double precision,
    started_at timestamptz not null default clock_timestamp(),
    last_seen_at timestamptz not null default clock_timestamp()
);
create index workers_by_project on tidemill.workers (project_id, id);
create index workers_by_seen on tidemill.workers (last_seen_at);

create table tidemill.worker_heartbeats (
    id bigint generated always as identity primary key,
    worker_id uuid not null,
    ts timestamptz not null default clock_timestamp(),
    active_job_count integer not null default 0,
    cpu_percent double precision,
    memory_mb double precision,
    metadata jsonb
);
create index worker_heartbeats_by_worker on tidemill.worker_heartbeats (worker_id, ts);
create index worker_heartbeats_by_ts on tidemill.worker_heartbeats (ts);
