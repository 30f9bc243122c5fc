-- Jobs, split by how often each part moves (docs/adr/0002): wide rows that a claim never writes, and narrow
-- tables of which at most one holds a job at any time. Which one it is, is the job's state.

create type tidemill.job_status as enum (
    'pending', 'scheduled', 'queued', 'claimed', 'running', 'completed', 'cancelled', 'dead_letter', 'quarantined');
-- What `jobs` itself remembers. moving = look at entries, leases and executions.
create type tidemill.job_phase as enum ('waiting', 'moving', 'cancelled', 'dead_letter', 'quarantined');
create type tidemill.execution_status as enum (
    'completed', 'failed', 'snoozed', 'released', 'cancelled', 'crashed', 'lease_expired');
create type tidemill.unique_window as enum ('pending', 'running', 'ttl');
create type tidemill.parent_failure_rule as enum ('cancel', 'run', 'hold');
create type tidemill.hold_kind as enum ('idempotency', 'unique');

-- An inline retry policy that decide(), the claim and the view can read without a fault. Bounds as in domain/limits.py.
-- In plpgsql, because a function in SQL would be inlined, and so read and planned, in every insert and update of jobs.
create function tidemill.is_retry_policy(policy jsonb) returns boolean
language plpgsql immutable strict parallel safe as $$
begin
    return jsonb_typeof(policy) = 'object'
        and policy - array['strategy', 'base_delay_ms', 'multiplier', 'max_delay_ms', 'max_attempts', 'jitter'] = '{}'
        and coalesce(policy ->> 'strategy' in ('fixed', 'linear', 'exponential'), true)
        and case coalesce(jsonb_typeof(policy -> 'base_delay_ms'), 'null') when 'null' then true
            when 'number' then policy ->> 'base_delay_ms' ~ '^\d{1,10}$' and (policy ->> 'base_delay_ms')::bigint <= 2678400000 else false end
        and case coalesce(jsonb_typeof(policy -> 'max_delay_ms'), 'null') when 'null' then true
            when 'number' then policy ->> 'max_delay_ms' ~ '^\d{1,10}$' and (policy ->> 'max_delay_ms')::bigint <= 2678400000 else false end
        and case coalesce(jsonb_typeof(policy -> 'max_attempts'), 'null') when 'null' then true
            when 'number' then policy ->> 'max_attempts' ~ '^\d{1,4}$' and (policy ->> 'max_attempts')::integer between 1 and 1000 else false end
        and case coalesce(jsonb_typeof(policy -> 'multiplier'), 'null') when 'null' then true
            when 'number' then (policy ->> 'multiplier')::numeric between 1 and 100 else false end
        and coalesce(jsonb_typeof(policy -> 'jitter'), 'null') in ('boolean', 'null');
end $$;

-- What single columns of the busy tables may hold. Domains and no CHECKs of the table: Postgres reads a table's CHECKs again in every
-- statement that writes it (a third of a single enqueue's time), a domain's once per session.
create domain tidemill.key_text as text check (length(value) between 1 and 255);
create domain tidemill.worker_text as text check (length(value) between 1 and 200);
create domain tidemill.text_64 as text check (length(value) <= 64);
create domain tidemill.text_200 as text check (length(value) <= 200);
create domain tidemill.text_255 as text check (length(value) <= 255);
create domain tidemill.text_512 as text check (length(value) <= 512);
create domain tidemill.text_1000 as text check (length(value) <= 1000);
create domain tidemill.text_8192 as text check (length(value) <= 8192);
create domain tidemill.digest as bytea check (length(value) = 32);
create domain tidemill.inline_policy as jsonb check (tidemill.is_retry_policy(value));
create domain tidemill.header_map as jsonb check (octet_length(value::text) <= 16384);
create domain tidemill.tag_list as text[] check (cardinality(value) between 1 and 20);
create domain tidemill.attempt_limit as integer check (value between 1 and 1000);
create domain tidemill.attempt_total as integer check (value between 0 and 1000);
create domain tidemill.to_million as integer check (value between 1 and 1000000);
create domain tidemill.whole as integer check (value >= 0);
create domain tidemill.whole_bigint as bigint check (value >= 0);
create domain tidemill.attempt_number as integer check (value between 1 and 1001);
create domain tidemill.fence as bigint check (value >= 1);
create domain tidemill.lease_ms as bigint check (value between 1000 and 43200000);
create domain tidemill.timeout_ms as bigint check (value between 1 and 43200000);
create domain tidemill.retention_ms as bigint check (value between 0 and 315360000000);

create table tidemill.jobs (
    id uuid primary key,
    project_id uuid not null,
    queue_id uuid not null,
    scheduled_job_id uuid,
    scheduled_for timestamptz,
    batch_id uuid,
    job_type tidemill.name not null,
    payload jsonb not null default '{}',
    schema_version integer,
    priority smallint not null default 0,
    phase tidemill.job_phase not null,
    is_held boolean not null default false,
    run_at timestamptz not null,
    idempotency_key tidemill.key_text,
    unique_key tidemill.digest,
    unique_window tidemill.unique_window,
    unique_until timestamptz,
    retry_policy_id uuid,
    retry_policy tidemill.inline_policy,
    max_attempts_override tidemill.attempt_limit,
    attempt_count tidemill.attempt_total not null default 0,
    fence tidemill.whole_bigint not null default 0,
    crash_count tidemill.whole not null default 0,
    timeout_ms tidemill.timeout_ms,
    concurrency_key tidemill.text_255,
    concurrency_limit tidemill.to_million,
    partition_key tidemill.key_text,
    weight tidemill.to_million not null default 1,
    rate_class tidemill.name,
    sticky_worker tidemill.worker_text,
    lane bigint not null default 0,
    fingerprint tidemill.digest,
    headers tidemill.header_map,
    tags tidemill.tag_list,
    principal_id tidemill.text_255,
    correlation_id tidemill.text_255,
    traceparent tidemill.text_255,
    tracestate tidemill.text_512,
    trace_id tidemill.text_64,
    on_parent_failure tidemill.parent_failure_rule,
    pending_parents tidemill.whole not null default 0,
    has_children boolean not null default false,
    progress_current bigint,
    progress_total bigint,
    progress_message tidemill.text_1000,
    checkpoint jsonb,
    checkpoint_cursor tidemill.text_1000,
    output jsonb,
    error_class tidemill.text_200,
    error_message tidemill.text_8192,
    final_reason tidemill.text_200,
    retention_ms tidemill.retention_ms,
    retention_until timestamptz,
    finalized_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint jobs_final_columns check ((phase in ('cancelled', 'dead_letter')) = (finalized_at is not null)),
    constraint jobs_waiting_reason check (phase = 'waiting' or (pending_parents = 0 and not is_held)
        or phase in ('cancelled', 'quarantined')),
    constraint jobs_unique_columns check ((unique_key is null) = (unique_window is null)),
    constraint jobs_ttl_columns check ((unique_window is not distinct from 'ttl') = (unique_until is not null)),
    constraint jobs_concurrency_columns check ((concurrency_key is null) or (concurrency_limit is not null))
) with (fillfactor = 95, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

-- Lists walk (project, id): ids are UUIDv7 made in creation order, so this is created_at order.
create index jobs_by_project on tidemill.jobs (project_id, id);
-- The phases that `jobs` itself remembers are rare; a job on its normal way through touches none of these.
create index jobs_by_phase on tidemill.jobs (project_id, phase, id) where phase <> 'moving';
create index jobs_by_end on tidemill.jobs (project_id, finalized_at, id) where finalized_at is not null;
create index jobs_by_retention on tidemill.jobs (retention_until) where finalized_at is not null;
create index jobs_by_idempotency_key on tidemill.jobs (project_id, idempotency_key) where idempotency_key is not null;
create index jobs_by_batch on tidemill.jobs (batch_id, id) where batch_id is not null;
create index jobs_by_schedule on tidemill.jobs (scheduled_job_id, id) where scheduled_job_id is not null;
-- Each occurrence exists once. One that was taken back before it was due (pause, edit) leaves its place to another.
create unique index jobs_by_occurrence on tidemill.jobs (scheduled_job_id, scheduled_for)
    where scheduled_job_id is not null and scheduled_for is not null and phase <> 'cancelled';
create index jobs_by_principal on tidemill.jobs (project_id, principal_id, id) where principal_id is not null;
create index jobs_by_correlation on tidemill.jobs (project_id, correlation_id, id) where correlation_id is not null;
create index jobs_by_fingerprint on tidemill.jobs (project_id, fingerprint, id) where fingerprint is not null;

-- Jobs between which and a worker only time and the gates stand. Due is run_at <= now, exact to the moment.
-- The primary key is the claim's order; jobs' lane, priority and run_at always equal the entry's, so it also finds one job's entry.
-- lane 0: no gates of its own. Any other: all entries of a lane pass or fail the same gates (migration 0007).
create table tidemill.job_queue_entries (
    queue_id uuid not null,
    lane bigint not null default 0,
    priority smallint not null,
    run_at timestamptz not null,
    job_id uuid not null,
    attempt_count integer not null default 0,
    fence bigint not null default 0,
    traits smallint not null default 0,
    weight integer,
    primary key (queue_id, lane, priority, run_at, job_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Lists of waiting jobs go by time, whatever lane they stand in.
create index job_queue_entries_gated on tidemill.job_queue_entries (queue_id, run_at, job_id) where lane <> 0;

-- The lease is the row: deleting it by (job_id, lease_token) is guard, settle and fence in one.
create table tidemill.job_leases (
    job_id uuid primary key,
    lease_token uuid not null,
    queue_id uuid not null,
    worker_id uuid,
    attempt tidemill.attempt_number not null,
    fence tidemill.fence not null,
    priority smallint not null,
    traits smallint not null default 0,
    run_at timestamptz not null,
    claimed_at timestamptz not null,
    started_at timestamptz,
    lease_expires_at timestamptz not null check (lease_expires_at >= claimed_at),
    lease_ms tidemill.lease_ms not null,
    cancel_requested_at timestamptz,
    lane bigint not null default 0,
    limit_key bigint,
    partition_key text,
    weight integer
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index job_leases_by_expiry on tidemill.job_leases (lease_expires_at);
-- Limits count leases. Only leases of gated queues and jobs stand in these.
create index job_leases_by_limit on tidemill.job_leases (limit_key) where limit_key is not null;
create index job_leases_gated on tidemill.job_leases (queue_id, priority, claimed_at) where traits & 128 <> 0;

-- One row per ended attempt. id is the attempt's lease token; (job_id, fence) orders a job's attempts also after a retry from the dead letter.
create table tidemill.job_executions (
    job_id uuid not null,
    fence bigint not null,
    id uuid not null,
    queue_id uuid not null,
    worker_id uuid,
    attempt_number integer not null,
    status tidemill.execution_status not null,
    exit_code integer,
    ack_digest bigint,
    queued_at timestamptz not null,
    started_at timestamptz not null,
    finished_at timestamptz not null,
    duration_ms bigint not null,
    created_at timestamptz not null default statement_timestamp(),
    retention_until timestamptz,
    result jsonb,
    error_class tidemill.text_200,
    error_message tidemill.text_8192,
    error_stack tidemill.text_8192,
    primary key (job_id, fence),
    constraint job_executions_result check (result is null or status = 'completed')
) with (autovacuum_vacuum_insert_scale_factor = 0.1);
create index job_executions_completed on tidemill.job_executions (queue_id, finished_at, job_id) where status = 'completed' and retention_until is null;
create index job_executions_completed_kept on tidemill.job_executions (queue_id, finished_at, job_id) where status = 'completed' and retention_until is not null;
create index job_executions_kept on tidemill.job_executions (retention_until) where retention_until is not null;

-- Who holds a unique key, or answers for an idempotency key. expires_at: free from then on (ttl window).
create table tidemill.unique_holds (
    project_id uuid not null,
    kind tidemill.hold_kind not null,
    key bytea not null check (length(key) = 32),
    job_id uuid not null,
    expires_at timestamptz,
    request_hash bytea,
    primary key (project_id, kind, key),
    constraint unique_holds_request check ((kind = 'idempotency') = (request_hash is not null))
);
create index unique_holds_by_job on tidemill.unique_holds (job_id);

create table tidemill.job_logs (
    id bigint generated always as identity primary key,
    execution_id uuid not null,
    job_id uuid not null,
    ts timestamptz not null,
    level text not null check (level in ('debug', 'info', 'warning', 'error')),
    message text not null check (length(message) <= 8192)
);
create index job_logs_by_job on tidemill.job_logs (job_id, id);

create table tidemill.dead_letter_queue (
    id uuid primary key,
    job_id uuid not null,
    project_id uuid not null,
    queue_id uuid not null,
    job_type text not null,
    payload_snapshot jsonb not null,
    failure_reason text not null,
    attempt_count integer not null,
    error_class text,
    last_error text,
    moved_at timestamptz not null,
    resolved boolean not null default false,
    resolved_by uuid,
    resolved_at timestamptz,
    resolution_action text check (resolution_action in ('retry', 'discard')),
    note text check (length(note) <= 2000),
    constraint dead_letter_queue_resolution check (resolved = (resolved_at is not null))
);
create index dead_letter_queue_by_job on tidemill.dead_letter_queue (job_id);
create index dead_letter_queue_open on tidemill.dead_letter_queue (project_id, moved_at, id) where not resolved;

-- Workers that wait for a doorbell. Lost in a crash without harm: they poll as well.
create unlogged table tidemill.queue_sleepers (
    queue_id uuid not null,
    worker_id uuid not null,
    since timestamptz not null default clock_timestamp(),
    primary key (queue_id, worker_id)
);
create index queue_sleepers_by_worker on tidemill.queue_sleepers (worker_id);
create index unique_holds_by_expiry on tidemill.unique_holds (expires_at) where expires_at is not null;
