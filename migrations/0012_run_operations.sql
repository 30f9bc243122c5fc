-- Bulk operations: what a plan remembers while it is applied and undone.

alter table tidemill.operations
    add column states text[] not null default '{}',              -- what of the filter's states the action can touch
    add column is_approximate boolean not null default false,    -- the estimate is a lower bound: counting took too long
    add column actor_kind text,
    add column queue_id uuid,                                    -- remove_queue: which, even when another has taken its name
    add column closed_xid xid8,                                  -- remove_queue: who began before this may not know that it is closed
    add column applied_by uuid,
    add column applied_at timestamptz,                           -- a job that changed after this is no member
    add column total bigint,                                     -- members as counted then; null: not applied, or too many to count
    add column skips jsonb not null default '{}',                -- members left alone, by reason
    add column is_walked boolean not null default false,
    add column again uuid[] not null default '{}',               -- members that somebody else held when their turn came
    add column undo_by uuid,
    add column undo_at timestamptz,
    add column undone bigint not null default 0,
    add column undo_skips jsonb not null default '{}',
    add column undo_position uuid,
    add column undone_at timestamptz;

-- squawk-ignore require-concurrent-index-creation
create index operations_undoing on tidemill.operations (updated_at) where undo_at is not null and undone_at is null;
-- squawk-ignore require-concurrent-index-creation
create index operations_over on tidemill.operations (updated_at) where status <> 'applying';

-- What an operation that can be undone has done to which job, and where the job was before.
create table tidemill.operation_jobs (
    operation_id uuid not null,
    job_id uuid not null,
    was tidemill.job_status not null,
    was_held boolean not null default false,
    at timestamptz not null,
    primary key (operation_id, job_id)
);

-- Jobs of a queue in the phases that `jobs` itself remembers: what removing a queue looks through.
-- Partial, so that building it writes little: a job on its normal way through is not in it.
-- squawk-ignore require-concurrent-index-creation
create index jobs_by_queue_phase on tidemill.jobs (queue_id, phase, id) where phase <> 'moving';
