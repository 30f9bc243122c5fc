-- Dead letters by kind of error. Everything here costs something only when a job dies: one on its normal way touches none of it.

-- An error message without what differs from one job to the next: ids, hex, numbers, quoted text. At most 500 characters.
create function tidemill.masked_error(message text) returns text
language sql immutable parallel safe
return left(btrim(
    regexp_replace(
    regexp_replace(
    regexp_replace(
    regexp_replace(
    regexp_replace(
    regexp_replace(
    regexp_replace(left(message, 1000),
        '(?<!\w)(''[^'']*''|"[^"]*"|`[^`]*`)(?!\w)', '<text>', 'g'),
        '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', '<uuid>', 'gi'),
        '\m(?:0[xX][0-9a-fA-F]+|(?=[0-9a-fA-F]{8})(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]+)\M', '<hex>', 'g'),
        '\d+(?:[.,:/_-]\d+)*', '<n>', 'g'),
        '(<(?:text|uuid|hex|n)>)(?:, ?\1)+', '\1, …', 'g'),
        '\s{2,}|[^\S ]', ' ', 'g'),
        '[[:cntrl:]]', '', 'g')), 500);

-- Which kind of error this is: 16 bytes of a hash over class and masked message.
create function tidemill.error_group(error_class text, message text) returns bytea
language sql immutable parallel safe
return substr(sha256(convert_to(coalesce(error_class, '') || chr(31) || tidemill.masked_error(coalesce(message, '')), 'UTF8')), 1, 16);

-- Reckoned by the table itself, so that no writer can forget it.
-- The rewrite is meant: dead letters are few, and claims and acks do not touch the table.
alter table tidemill.dead_letter_queue
    -- squawk-ignore adding-field-with-default
    add column error_group bytea generated always as (tidemill.error_group(coalesce(error_class, failure_reason), last_error)) stored;

-- Dead letters of one kind by time, and their jobs in the order of job lists and bulk operations.
-- squawk-ignore require-concurrent-index-creation
create index dead_letter_queue_by_group on tidemill.dead_letter_queue (project_id, error_group, moved_at, id) where not resolved;
-- squawk-ignore require-concurrent-index-creation
create index dead_letter_queue_jobs_by_group on tidemill.dead_letter_queue (project_id, error_group, job_id) where not resolved;

-- What is known of each kind of error, per queue and job type. Folded from error_group_news by the scheduler.
create table tidemill.error_groups (
    project_id uuid not null,
    error_group bytea not null check (length(error_group) = 16),
    queue_id uuid not null,
    job_type text not null,
    error_class text check (length(error_class) <= 200),
    message text not null default '' check (length(message) <= 500),
    open_count bigint not null default 0,
    total bigint not null default 0,
    first_seen_at timestamptz not null,
    last_seen_at timestamptz not null,
    primary key (project_id, error_group, queue_id, job_type)
);
create index error_groups_over on tidemill.error_groups (last_seen_at) where open_count <= 0;

-- How many died per hour, for the last two days.
create table tidemill.error_group_hours (
    project_id uuid not null,
    error_group bytea not null,
    queue_id uuid not null,
    job_type text not null,
    hour timestamptz not null,
    died bigint not null,
    primary key (project_id, error_group, queue_id, job_type, hour)
);
create index error_group_hours_by_hour on tidemill.error_group_hours (hour);

-- What happened to dead letters and is not folded yet: opened counts those that became open less those resolved or deleted.
create table tidemill.error_group_news (
    id bigint generated always as identity primary key,
    project_id uuid not null,
    error_group bytea not null,
    queue_id uuid not null,
    job_type text not null,
    error_class text,
    message text,
    hour timestamptz not null,
    opened bigint not null,
    died bigint not null,
    first_at timestamptz not null,
    last_at timestamptz not null
);
create index error_group_news_by_project on tidemill.error_group_news (project_id, id);

-- One row of news per kind, queue, type and hour that a statement touched, whoever wrote it.
create function tidemill.note_dead_letters() returns trigger
language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into tidemill.error_group_news (
            project_id, error_group, queue_id, job_type, error_class, message, hour, opened, died, first_at, last_at)
        select d.project_id, d.error_group, d.queue_id, d.job_type, min(coalesce(d.error_class, d.failure_reason)),
               tidemill.masked_error(coalesce(min(d.last_error), '')), date_trunc('hour', d.moved_at, 'UTC'),
               count(*) filter (where not d.resolved), count(*), min(d.moved_at), max(d.moved_at)
        from after_rows d
        group by d.project_id, d.error_group, d.queue_id, d.job_type, date_trunc('hour', d.moved_at, 'UTC');
    elsif tg_op = 'UPDATE' then
        insert into tidemill.error_group_news (project_id, error_group, queue_id, job_type, hour, opened, died, first_at, last_at)
        select b.project_id, b.error_group, b.queue_id, b.job_type, date_trunc('hour', b.moved_at, 'UTC'),
               sum(case when b.resolved then 1 else -1 end), 0, min(b.moved_at), max(b.moved_at)
        from before_rows b
        join after_rows a on a.id = b.id
        where a.resolved <> b.resolved
        group by b.project_id, b.error_group, b.queue_id, b.job_type, date_trunc('hour', b.moved_at, 'UTC');
    else
        insert into tidemill.error_group_news (project_id, error_group, queue_id, job_type, hour, opened, died, first_at, last_at)
        select b.project_id, b.error_group, b.queue_id, b.job_type, date_trunc('hour', b.moved_at, 'UTC'),
               -count(*), 0, min(b.moved_at), max(b.moved_at)
        from before_rows b
        where not b.resolved
        group by b.project_id, b.error_group, b.queue_id, b.job_type, date_trunc('hour', b.moved_at, 'UTC');
    end if;
    return null;
end
$$;

create trigger dead_letters_born after insert on tidemill.dead_letter_queue
    referencing new table as after_rows for each statement execute function tidemill.note_dead_letters();
create trigger dead_letters_resolved after update on tidemill.dead_letter_queue
    referencing old table as before_rows new table as after_rows for each statement execute function tidemill.note_dead_letters();
create trigger dead_letters_gone after delete on tidemill.dead_letter_queue
    referencing old table as before_rows for each statement execute function tidemill.note_dead_letters();

-- What is there already.
insert into tidemill.error_group_news (project_id, error_group, queue_id, job_type, error_class, message, hour, opened, died, first_at, last_at)
select d.project_id, d.error_group, d.queue_id, d.job_type, min(coalesce(d.error_class, d.failure_reason)),
       tidemill.masked_error(coalesce(min(d.last_error), '')), date_trunc('hour', d.moved_at, 'UTC'),
       count(*) filter (where not d.resolved), count(*), min(d.moved_at), max(d.moved_at)
from tidemill.dead_letter_queue d
group by d.project_id, d.error_group, d.queue_id, d.job_type, date_trunc('hour', d.moved_at, 'UTC');
