-- Lanes: entries that pass or fail the same gates stand in one lane, so a claim looks at a blocked lane once and never at the jobs in it
-- (docs/adr/0009). A lane exists while it has entries; partitions group lanes for fair shares.

create table tidemill.queue_partitions (
    queue_id uuid not null references tidemill.queues (id) on delete cascade,
    partition_key text not null check (length(partition_key) <= 255),
    weight integer not null default 1 check (weight between 1 and 1000000),
    virtual_finish double precision not null default 0,
    is_ready boolean not null default false,
    served_at timestamptz not null default clock_timestamp(),
    primary key (queue_id, partition_key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index queue_partitions_by_turn on tidemill.queue_partitions (queue_id, virtual_finish, partition_key) where is_ready;
-- which may go (scheduler/prune_partitions.sql): those with a weight of their own stay
create index queue_partitions_to_go on tidemill.queue_partitions (served_at) where not is_ready and weight = 1;

create table tidemill.queue_lanes (
    queue_id uuid not null references tidemill.queues (id) on delete cascade,
    lane bigint not null check (lane > 0),
    priority smallint not null,
    partition_key text not null default '',
    job_type text not null,
    limit_key bigint,
    concurrency_limit integer,
    rate_class text,
    sticky_worker text,
    due_at timestamptz not null,
    is_ready boolean not null,
    look_at timestamptz not null,
    blocked_by text check (blocked_by in ('concurrency_key', 'rate_class')),
    blocked_since timestamptz,
    primary key (queue_id, lane, priority),
    constraint queue_lanes_blocked check ((blocked_by is null) = (blocked_since is null) and (blocked_by is null or not is_ready))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index queue_lanes_ready on tidemill.queue_lanes (queue_id, partition_key, priority desc, due_at, lane) where is_ready;
-- a lane that is ready waits for no look: what a claim changes of it touches two indexes less
create index queue_lanes_to_look on tidemill.queue_lanes (look_at) where not is_ready;
create index queue_lanes_waiting on tidemill.queue_lanes (queue_id, look_at) where not is_ready;
create index queue_lanes_sticky on tidemill.queue_lanes (queue_id) where sticky_worker is not null;
create index queue_lanes_by_limit on tidemill.queue_lanes (limit_key) where limit_key is not null;
create index queue_lanes_by_rate on tidemill.queue_lanes (rate_class) where blocked_by = 'rate_class';

-- The virtual time of each queue that serves partitions: where a partition that was idle starts again, so that idling earns no credit.
create table tidemill.queue_clocks (
    queue_id uuid primary key references tidemill.queues (id) on delete cascade,
    virtual_time double precision not null default 0
) with (fillfactor = 50);

-- A limit's identity over all queues of a project, and the lock that claims take (and never wait for) while they count it.
create function tidemill.limit_key(project_id uuid, job_type text, key text) returns bigint
language sql immutable parallel safe
return hashtextextended(concat_ws(e'\x1f', project_id::text, job_type, coalesce('=' || key, '-')), 4711);

create function tidemill.queue_lock(queue_id uuid) returns bigint
language sql immutable parallel safe
return hashtextextended(queue_id::text, 1789);

-- News for the claims of a queue, appended by whoever lets an entry into a lane (job_id: one of the lane's jobs, run_at: when the lane has something) or
-- ends a counted lease (limit_key: a place is free). Only claims write lanes and partitions, so nobody else ever waits for those rows.
create table tidemill.lane_news (
    id bigint generated always as identity primary key,
    queue_id uuid not null,
    job_id uuid,
    run_at timestamptz,
    limit_key bigint,
    constraint lane_news_one_kind check ((job_id is null) = (run_at is null) and (job_id is null) <> (limit_key is null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index lane_news_by_queue on tidemill.lane_news (queue_id, id);

-- Places of these limits have come free: news for every queue that has lanes under them. Returns how many. Locks: none.
create function tidemill.free_places(p_queue_ids uuid[], p_limit_keys bigint[]) returns bigint
language sql volatile
begin atomic
    with news as (
        insert into tidemill.lane_news (queue_id, limit_key)
        select distinct n.queue_id, n.limit_key
        from (
            select q.queue_id, k.limit_key from rows from (unnest(p_queue_ids), unnest(p_limit_keys)) as q (queue_id, limit_key) cross join lateral (select q.limit_key) k
            union all
            select l.queue_id, l.limit_key from unnest(p_limit_keys) as k (limit_key)
            cross join lateral (select o.queue_id, o.limit_key from tidemill.queue_lanes o where o.limit_key = k.limit_key limit 100) l
        ) n
        returning 1)
    select count(*) from news;
end;

-- A partition has work again, at the queue's clock if it was idle. Only for claims, under the queue's lock. Those that have work already are left out:
-- a conflict that does nothing locks, and writes, the row all the same.
create function tidemill.ready_partitions(p_queue_id uuid, p_partitions text[]) returns void
language sql volatile
begin atomic
    insert into tidemill.queue_partitions as p (queue_id, partition_key, virtual_finish, is_ready)
    select distinct p_queue_id, n.name, coalesce((select c.virtual_time from tidemill.queue_clocks c where c.queue_id = p_queue_id), 0), true
    from unnest(p_partitions) as n (name)
    where (select o.is_ready from tidemill.queue_partitions o where o.queue_id = p_queue_id and o.partition_key = n.name limit 1) is not true
    on conflict (queue_id, partition_key) do update
    set is_ready = true, virtual_finish = greatest(p.virtual_finish, excluded.virtual_finish)
    where not p.is_ready;
end;

-- Tokens of a rate class now: a bucket of `burst` that gains `limit` per window, empty while paused or closed.
create function tidemill.tokens_now(r tidemill.rate_classes, p_now timestamptz) returns double precision
language sql immutable parallel safe
return case when r.is_paused or coalesce(r.closed_until > p_now, false) then 0
    else least(r.burst::double precision,
               r.tokens + greatest(0, extract(epoch from p_now - r.refilled_at)) * 1000.0 * r."limit" / r.window_ms) end;
