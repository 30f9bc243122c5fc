-- The error webhook of a project (docs/adr/0017): where it goes, what waits to be told, what was told. Jobs on their way touch none of it:
-- news come from the scheduler's fold of dead letters, and from two triggers on rows that hardly ever change.
-- squawk-ignore-file require-concurrent-index-creation
-- (All indexes are of tables that are made here.)

create table tidemill.webhooks (
    project_id uuid primary key references tidemill.projects (id) on delete cascade,
    url text not null check (length(url) between 8 and 2048),
    events text[] not null check (cardinality(events) between 1 and 3
        and events <@ array['job.dead_letter', 'fingerprint.quarantined', 'schedule.broken']),
    queues text[] check (cardinality(queues) between 1 and 50), -- dead letters of these only; null: of all
    is_paused boolean not null default false,
    failing_since timestamptz,
    failed_attempts integer not null default 0 check (failed_attempts >= 0), -- since the last call that arrived
    last_error text check (length(last_error) <= 200),
    last_status integer,
    last_failure_at timestamptz,
    last_success_at timestamptz,
    quiet_until timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

-- Apart from the webhook, so that who serves people may write them and not read them.
create table tidemill.webhook_secrets (
    id uuid primary key,
    project_id uuid not null references tidemill.webhooks (project_id) on delete cascade,
    secret bytea not null check (length(secret) between 24 and 64),
    created_at timestamptz not null default clock_timestamp(),
    ends_at timestamptz -- null: the one in force
);
create index webhook_secrets_by_project on tidemill.webhook_secrets (project_id);
create index webhook_secrets_over on tidemill.webhook_secrets (ends_at) where ends_at is not null;

-- What is to be told: one row per kind of thing. Without a reference to the webhook, which may go while news come.
create table tidemill.webhook_news (
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    event text not null check (length(event) <= 50),
    key text not null check (length(key) <= 300),
    waiting bigint not null,   -- how often it happened since it was told last
    is_told boolean not null default false,
    due_at timestamptz not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    about jsonb not null default '{}',
    primary key (project_id, event, key)
);
create index webhook_news_due on tidemill.webhook_news (project_id, due_at) where waiting > 0;
create index webhook_news_told on tidemill.webhook_news (due_at) where waiting = 0;

-- What was told, each by a job of the system's own project.
create table tidemill.webhook_deliveries (
    id uuid primary key, -- also the job's, and the event's
    project_id uuid not null references tidemill.projects (id) on delete cascade,
    event text not null check (length(event) <= 50),
    things integer not null,
    status text not null default 'waiting' check (status in ('waiting', 'delivered', 'failed', 'dropped')),
    attempts integer not null default 0,
    last_status integer,
    last_error text check (length(last_error) <= 200),
    created_at timestamptz not null,
    ended_at timestamptz,
    constraint webhook_deliveries_end check ((status = 'waiting') = (ended_at is null))
);
create index webhook_deliveries_by_project on tidemill.webhook_deliveries (project_id, id);
create index webhook_deliveries_waiting on tidemill.webhook_deliveries (created_at) where status = 'waiting';
create index webhook_deliveries_over on tidemill.webhook_deliveries (ended_at) where ended_at is not null;

select tidemill.fence('webhooks', 'project_id = (select nullif(current_setting(''tidemill.project_id'', true), '''')::uuid)');
select tidemill.fence('webhook_secrets', 'project_id = (select nullif(current_setting(''tidemill.project_id'', true), '''')::uuid)');
select tidemill.fence('webhook_news', 'project_id = (select nullif(current_setting(''tidemill.project_id'', true), '''')::uuid)');
select tidemill.fence('webhook_deliveries', 'project_id = (select nullif(current_setting(''tidemill.project_id'', true), '''')::uuid)');

-- The system's own organization, project and queue: nobody is a member, no key can be made for it. Made with the first webhook, by whoever
-- may set one, with the owner's rights (it can make nothing but these three rows).
create function tidemill.system_project() returns uuid
language sql immutable parallel safe
return '00000000-0000-7000-8000-000000000001'::uuid;

create function tidemill.found_system() returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
begin atomic
    insert into tidemill.organizations (id, name, slug)
    values (tidemill.system_project(), 'tidemill itself', 'x-tidemill-00000000-0000-7000-8000-000000000001') on conflict do nothing;
    insert into tidemill.projects (id, org_id, name)
    values (tidemill.system_project(), tidemill.system_project(), 'tidemill itself') on conflict do nothing;
    insert into tidemill.queues (id, project_id, name, visibility_timeout_secs, retention_completed_ms, retention_cancelled_ms, retention_dead_letter_ms)
    values (tidemill.system_project(), tidemill.system_project(), 'webhooks', 60, 86400000, 86400000, 604800000) on conflict do nothing;
end;

-- A fingerprint that gets quarantined, and a schedule that breaks: news in the transaction that does it.
create function tidemill.note_quarantined() returns trigger
language plpgsql as $$
begin
    insert into tidemill.webhook_news (project_id, event, key, waiting, due_at, first_at, last_at, about)
    select new.project_id, 'fingerprint.quarantined', encode(new.fingerprint, 'hex') || ' ' || extract(epoch from new.quarantined_at), 1,
           new.quarantined_at, new.quarantined_at, new.quarantined_at,
           jsonb_build_object('fingerprint', encode(new.fingerprint, 'hex'), 'job_type', new.job_type, 'reason', new.reason,
                              'losses', new.losses, 'exit_code', new.last_exit_code)
    from tidemill.webhooks w
    where w.project_id = new.project_id and not w.is_paused and 'fingerprint.quarantined' = any(w.events)
    on conflict do nothing;
    return null;
end
$$;
create trigger quarantined after update on tidemill.quarantine for each row
    when (new.is_quarantined and not old.is_quarantined) execute function tidemill.note_quarantined();

create function tidemill.note_broken_schedule() returns trigger
language plpgsql as $$
begin
    insert into tidemill.webhook_news (project_id, event, key, waiting, due_at, first_at, last_at, about)
    select new.project_id, 'schedule.broken', new.name || ' ' || extract(epoch from clock_timestamp()), 1,
           clock_timestamp(), clock_timestamp(), clock_timestamp(),
           jsonb_build_object('schedule', new.name, 'job_type', new.job_type, 'message', left(new.error, 500), 'next_run_at', new.next_run_at)
    from tidemill.webhooks w
    where w.project_id = new.project_id and not w.is_paused and 'schedule.broken' = any(w.events)
    on conflict do nothing;
    return null;
end
$$;
create trigger schedule_broken after update on tidemill.scheduled_jobs for each row
    when (new.error is not null and new.error is distinct from old.error) execute function tidemill.note_broken_schedule();

do $$
begin
    if not exists (select from pg_roles r where r.rolname = 'tidemill_admin') then
        return; -- a migrator that may not create roles (0014)
    end if;
    -- Whoever ends a lease or fires a schedule may bring news; addresses, and above all secrets, are not theirs to see.
    grant select (project_id, is_paused, events, queues) on tidemill.webhooks to tidemill_jobs;
    grant select, insert on tidemill.webhook_news to tidemill_jobs;

    grant select, insert, update, delete on tidemill.webhooks to tidemill_admin;
    grant delete on tidemill.webhook_news to tidemill_admin;
    grant insert, delete, update (ends_at), select (id, project_id, created_at, ends_at) on tidemill.webhook_secrets to tidemill_admin;
    grant select, delete on tidemill.webhook_deliveries to tidemill_admin;

    grant select, update on tidemill.webhooks to tidemill_scheduler;
    grant update, delete on tidemill.webhook_news to tidemill_scheduler;
    grant select, delete, update (ends_at) on tidemill.webhook_secrets to tidemill_scheduler; -- the update locks those that are over
    grant select, insert, update, delete on tidemill.webhook_deliveries to tidemill_scheduler;
end
$$;
