-- Schedules, batches, dependencies, and the tables that decide who runs next.

create type tidemill.batch_status as enum ('open', 'sealed', 'completed', 'completed_with_failures', 'cancelled');
create type tidemill.missed_rule as enum ('skip', 'run_once', 'backfill');
create type tidemill.overlap_rule as enum ('allow', 'skip', 'buffer_one', 'cancel_running');
create type tidemill.gap_rule as enum ('fire_after', 'skip');
create type tidemill.fold_rule as enum ('first', 'second', 'both');
create type tidemill.operation_status as enum ('planned', 'applying', 'completed', 'failed', 'aborted');

create table tidemill.scheduled_jobs (
    id uuid primary key,
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    queue_id uuid not null,
    name tidemill.name not null,
    cron_expression text check (length(cron_expression) between 1 and 256),
    every_ms bigint check (every_ms between 1000 and 315360000000),
    timezone text not null default 'UTC' check (length(timezone) <= 100),
    job_type tidemill.name not null,
    payload_template jsonb not null default '{}',
    job jsonb not null default '{}',
    retry_policy_id uuid,
    is_active boolean not null default true,
    on_missed tidemill.missed_rule not null default 'run_once',
    backfill_limit integer not null default 0 check (backfill_limit between 0 and 1000),
    overlap tidemill.overlap_rule not null default 'allow',
    on_gap tidemill.gap_rule not null default 'fire_after',
    on_fold tidemill.fold_rule not null default 'first',
    starts_at timestamptz,
    ends_at timestamptz,
    jitter_ms bigint not null default 0 check (jitter_ms between 0 and 86400000),
    anchor_at timestamptz not null default date_trunc('second', clock_timestamp()),
    zone_data_release text check (length(zone_data_release) <= 20),
    declared_by text check (length(declared_by) between 1 and 200),
    error text check (length(error) <= 2000),
    note text check (length(note) <= 2000),
    next_run_at timestamptz,
    last_run_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    unique (project_id, name),
    constraint scheduled_jobs_one_rule check ((cron_expression is null) <> (every_ms is null)),
    constraint scheduled_jobs_period check (ends_at is null or starts_at is null or ends_at > starts_at)
);
create index scheduled_jobs_due on tidemill.scheduled_jobs (next_run_at, id) where is_active and next_run_at is not null;
-- Which schedules were reckoned with other zone data than the code's.
create index scheduled_jobs_by_release on tidemill.scheduled_jobs (zone_data_release, id) where is_active;

create table tidemill.schedule_events (
    id bigint generated always as identity primary key,
    scheduled_job_id uuid not null,
    nominal_at timestamptz not null,
    kind text not null check (kind in ('fired', 'skipped', 'cancelled', 'error')),
    reason text check (length(reason) <= 500),
    job_id uuid,
    at timestamptz not null default clock_timestamp()
);
create index schedule_events_by_schedule on tidemill.schedule_events (scheduled_job_id, id);

create table tidemill.job_batches (
    id uuid primary key,
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    name text not null default '' check (length(name) <= 200),
    total_jobs bigint not null default 0 check (total_jobs >= 0),
    completed_jobs bigint not null default 0 check (completed_jobs >= 0),
    failed_jobs bigint not null default 0 check (failed_jobs >= 0),
    cancelled_jobs bigint not null default 0 check (cancelled_jobs >= 0),
    status tidemill.batch_status not null default 'open',
    callbacks jsonb not null default '{}',
    fired text[] not null default '{}' check (fired <@ array['on_complete', 'on_success', 'on_failure']),
    error text check (length(error) <= 2000),
    cancel_after uuid,  -- the member after which the walk over a cancelled batch goes on; null: there is none
    sealed_at timestamptz,
    finalized_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    constraint job_batches_sum check (completed_jobs + failed_jobs + cancelled_jobs <= total_jobs)
);
create index job_batches_by_project on tidemill.job_batches (project_id, id);
create index job_batches_ended on tidemill.job_batches (finalized_at) where finalized_at is not null;  -- what prune looks through
create index job_batches_cancelling on tidemill.job_batches (finalized_at, id) where cancel_after is not null;

create table tidemill.job_dependencies (
    job_id uuid not null,
    depends_on_job_id uuid not null,
    settled_at timestamptz,
    primary key (job_id, depends_on_job_id),
    constraint job_dependencies_no_self check (job_id <> depends_on_job_id)
);
create index job_dependencies_by_parent on tidemill.job_dependencies (depends_on_job_id);
-- Edges that still hold a child back: what a parent's end settles, and what the sweep looks through.
create index job_dependencies_open on tidemill.job_dependencies (depends_on_job_id, job_id) where settled_at is null;

create table tidemill.rate_classes (
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    name tidemill.name not null,
    "limit" bigint not null check ("limit" between 1 and 1000000000),
    window_ms bigint not null check (window_ms between 1 and 2678400000),
    burst bigint not null check (burst between 1 and 1000000000),
    tokens double precision not null default 0,
    refilled_at timestamptz not null default clock_timestamp(),
    is_paused boolean not null default false,
    closed_until timestamptz,
    primary key (project_id, name)
);

create table tidemill.concurrency_limits (
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    name tidemill.name not null,
    queue_id uuid,
    job_type tidemill.name,
    max_concurrent integer not null check (max_concurrent between 0 and 1000000),
    on_saturated tidemill.saturation_rule not null default 'queue',
    created_at timestamptz not null default clock_timestamp(),
    primary key (project_id, name),
    constraint concurrency_limits_one_target check ((queue_id is null) <> (job_type is null))
);
create index concurrency_limits_by_queue on tidemill.concurrency_limits (queue_id) where queue_id is not null;

create table tidemill.quarantine (
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    fingerprint bytea not null check (length(fingerprint) = 32),
    job_type tidemill.name not null,
    losses integer not null default 0,
    reason text check (length(reason) <= 200),
    last_exit_code integer,
    first_loss_at timestamptz not null default clock_timestamp(),
    last_loss_at timestamptz not null default clock_timestamp(),
    quarantined_at timestamptz,
    primary key (project_id, fingerprint)
);

create table tidemill.operations (
    id uuid primary key,
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    action text not null check (action in ('retry', 'cancel', 'delete', 'discard', 'promote', 'remove_queue')),
    filter jsonb not null,
    filter_hash bytea not null,
    status tidemill.operation_status not null default 'planned',
    estimate bigint not null default 0,
    counts jsonb not null default '{}',
    sample jsonb not null default '[]',
    allow_drift boolean not null default false,
    affected bigint not null default 0,
    skipped bigint not null default 0,
    position uuid,
    snapshot_at timestamptz not null default clock_timestamp(),
    error text check (length(error) <= 2000),
    created_by uuid,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz
);
create index operations_by_project on tidemill.operations (project_id, id);
create index operations_open on tidemill.operations (created_at) where status = 'applying';

create table tidemill.queue_counters (
    queue_id uuid not null,
    minute timestamptz not null,
    arrived bigint not null default 0,
    started bigint not null default 0,
    completed bigint not null default 0,
    failed bigint not null default 0,
    dead bigint not null default 0,
    primary key (queue_id, minute)
);
create index queue_counters_by_minute on tidemill.queue_counters (minute);

create table tidemill.queue_samples (
    queue_id uuid not null,
    at timestamptz not null,
    queued bigint not null default 0,
    scheduled bigint not null default 0,
    running bigint not null default 0,
    oldest_queued_age_ms bigint,
    memory_mb double precision,
    primary key (queue_id, at)
);
create index queue_samples_by_time on tidemill.queue_samples (at);

create table tidemill.live_connections (
    id text primary key check (length(id) <= 200),
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    user_id uuid,
    connected_at timestamptz not null default clock_timestamp(),
    last_seen_at timestamptz not null default clock_timestamp()
);
create index live_connections_by_project on tidemill.live_connections (project_id);
