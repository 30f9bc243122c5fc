-- Counters, samples and latencies, folded by the scheduler from the rows that jobs leave behind anyway (docs/adr/0013): nothing is
-- counted while a job is created or ends. Every row below is written by a scheduler pass only.
-- squawk-ignore-file require-concurrent-index-creation, ban-drop-column

-- How far the fold has read. One row; whoever holds it folds, everybody else goes on without.
create table tidemill.counter_state (
    id smallint primary key default 1 check (id = 1),
    folded_until timestamptz,   -- everything before it that was visible then is counted; null: nothing yet
    settled_until timestamptz,  -- everything before it is counted for good: no transaction that could add to it is open
    marked_at timestamptz,      -- what had a transaction id by then has one below marked_xid
    marked_xid xid8,
    published_at timestamptz,    -- when a pass last told the figures to the outside
    published_until timestamptz, -- the minutes before it have been told
    constraint counter_state_order check ((folded_until is null) = (settled_until is null) and settled_until <= folded_until),
    constraint counter_state_mark check ((marked_at is null) = (marked_xid is null))
);
insert into tidemill.counter_state default values;

alter table tidemill.queue_counters drop column started;

-- The same figures per hour, kept for longer.
create table tidemill.queue_hours (
    queue_id uuid not null,
    hour timestamptz not null,
    arrived bigint not null default 0,
    completed bigint not null default 0,
    failed bigint not null default 0,
    dead bigint not null default 0,
    primary key (queue_id, hour)
);
create index queue_hours_by_hour on tidemill.queue_hours (hour);

-- The same figures since the beginning: what Prometheus counts by.
create table tidemill.queue_totals (
    queue_id uuid primary key,
    arrived bigint not null default 0,
    completed bigint not null default 0,
    failed bigint not null default 0,
    dead bigint not null default 0
);

-- How long attempts waited and ran, per five minutes, as counts in buckets of a quarter octave: no more than a few dozen rows per queue and slot.
create table tidemill.queue_latencies (
    queue_id uuid not null,
    slot timestamptz not null,
    bucket smallint not null check (bucket between 0 and 200),
    waits bigint not null default 0,
    runs bigint not null default 0,
    primary key (queue_id, slot, bucket)
);
create index queue_latencies_by_slot on tidemill.queue_latencies (slot);

-- The bucket of a duration: b holds [2^(b/4), 2^((b+1)/4)) ms, and 0 also what is shorter. domain/latency.py reads it back.
create function tidemill.latency_bucket(ms double precision) returns smallint
language sql immutable parallel safe
return least(200, floor(4 * ln(greatest(ms, 1)) / ln(2::double precision)))::smallint;

-- The job types that a project has used.
create table tidemill.job_types (
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    name text not null check (length(name) between 1 and 200),
    first_seen_at timestamptz not null,
    last_seen_at timestamptz not null,
    primary key (project_id, name)
);

alter table tidemill.queue_samples
    add column pending bigint not null default 0,
    add column dead bigint not null default 0;

-- What the fold reads: ends other than completion, and deaths.
create index job_executions_ended on tidemill.job_executions (queue_id, finished_at) where status <> 'completed';
create index dead_letter_queue_by_queue on tidemill.dead_letter_queue (queue_id, resolved, moved_at);
