-- Admission (docs/adr/0010): standing limits count by key, limits that appear count what runs already, news about single lanes, and the
-- most unfinished jobs that a queue may hold.

-- A standing limit of a job type counts the leases that carry its key.
alter table tidemill.job_leases add column type_key bigint;
-- squawk-ignore require-concurrent-index-creation
create index job_leases_by_type on tidemill.job_leases (type_key, priority, claimed_at) where type_key is not null; -- of a column that is new: nothing to read
alter table tidemill.queue_lanes add column type_key bigint;
-- squawk-ignore require-concurrent-index-creation
create index queue_lanes_by_type on tidemill.queue_lanes (type_key, blocked_since) where type_key is not null; -- as above

-- News of a third kind: this lane is worth another look, because what stood in front or the rate that it waits for has changed.
alter table tidemill.lane_news add column lane bigint, add column priority smallint;
-- squawk-ignore ban-drop-constraint
alter table tidemill.lane_news drop constraint lane_news_one_kind; -- a wider one follows at once
alter table tidemill.lane_news add constraint lane_news_one_kind check (
    num_nonnulls(job_id, limit_key, lane) = 1 and (run_at is null) = (limit_key is not null) and (lane is null) = (priority is null)) not valid;

-- The identity of a standing limit of a job type: what leases carry, and the lock under which claims count them.
create function tidemill.type_key(project_id uuid, job_type text) returns bigint
language sql immutable parallel safe
return tidemill.limit_key(project_id, job_type, e'\x1e' || 'type');

-- Places of these limits have come free: news for every queue that has lanes under them. A null queue: only those. Returns how many. Locks: none.
create or replace function tidemill.free_places(p_queue_ids uuid[], p_limit_keys bigint[]) returns bigint
language sql volatile
begin atomic
    with news as (
        insert into tidemill.lane_news (queue_id, limit_key)
        select distinct n.queue_id, n.limit_key
        from (
            select q.queue_id, q.limit_key from rows from (unnest(p_queue_ids), unnest(p_limit_keys)) as q (queue_id, limit_key)
            where q.queue_id is not null and q.limit_key is not null
            union all
            select l.queue_id, l.limit_key from unnest(p_limit_keys) as k (limit_key)
            cross join lateral (select o.queue_id, o.limit_key from tidemill.queue_lanes o where o.limit_key = k.limit_key limit 100) l
            union all
            select l.queue_id, l.type_key from unnest(p_limit_keys) as k (limit_key)
            cross join lateral (select o.queue_id, o.type_key from tidemill.queue_lanes o where o.type_key = k.limit_key order by o.blocked_since limit 100) l
        ) n
        returning 1)
    select count(*) from news;
end;

-- Moves due jobs of types with a standing limit from lane 0 (no gates) to the lane that their columns mean, and appends news of it. Looks at the
-- first p_limit due entries of each priority of the queue, moves at most p_limit, passes over what somebody holds. Returns how many it moved.
-- Claims call it, so that nothing that was enqueued, retried or promoted without knowing of the limit escapes it; the scheduler, so that few are left.
-- Locks: entries (skip locked) -> jobs (skip locked).
create function tidemill.relane(p_queue_id uuid, p_types text[], p_limit integer, p_now timestamptz) returns bigint
language sql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
begin atomic
    with seen as materialized (
        select e.priority, e.run_at, e.job_id
        from (select distinct i.priority from tidemill.queue_levels i where i.queue_id = p_queue_id) v
        cross join lateral (
            select d.priority, d.run_at, d.job_id from tidemill.job_queue_entries d
            where d.queue_id = p_queue_id and d.lane = 0 and d.priority = v.priority and d.run_at <= p_now
            order by d.run_at, d.job_id limit p_limit) e
    ), limited as materialized (
        select s.priority, s.run_at, s.job_id from seen s
        cross join lateral (select 1 from tidemill.jobs i where i.id = s.job_id and i.job_type = any(p_types) limit 1) j
        limit p_limit
    ), held as materialized (
        select e.priority, e.run_at, e.job_id from limited s
        join tidemill.job_queue_entries e on e.queue_id = p_queue_id and e.lane = 0 and e.priority = s.priority and e.run_at = s.run_at and e.job_id = s.job_id
        order by e.job_id for update of e skip locked
    ), owned as materialized (
        select j.id from held h join tidemill.jobs j on j.id = h.job_id order by j.id for update of j skip locked
    ), moved as (
        update tidemill.jobs j
        set lane = tidemill.lane_of(j.job_type, j.concurrency_limit, j.concurrency_key, j.partition_key, j.rate_class, j.sticky_worker)
        from owned o where j.id = o.id
        returning j.id, j.lane, j.priority, j.run_at
    ), entered as (
        update tidemill.job_queue_entries e set lane = m.lane from moved m
        where e.queue_id = p_queue_id and e.lane = 0 and e.priority = m.priority and e.run_at = m.run_at and e.job_id = m.id
        returning e.job_id, e.lane, e.priority, e.run_at
    ), news as (
        insert into tidemill.lane_news (queue_id, job_id, run_at)
        select distinct on (e.lane, e.priority) p_queue_id, e.job_id, e.run_at from entered e order by e.lane, e.priority, e.run_at
    )
    select count(*) from entered e;
end;

-- How many due jobs a queue has, at most p_limit. Walks its priorities and lanes, never what is scheduled for later.
create function tidemill.due_count(p_queue_id uuid, p_limit integer, p_now timestamptz) returns bigint
language sql stable
begin atomic
    select count(*) from (
        (select 1 from (select distinct i.priority from tidemill.queue_levels i where i.queue_id = p_queue_id) v
         cross join lateral (
             select 1 from tidemill.job_queue_entries e
             where e.queue_id = p_queue_id and e.lane = 0 and e.priority = v.priority and e.run_at <= p_now limit p_limit) d
         limit p_limit)
        union all
        (select 1 from tidemill.queue_lanes l
         cross join lateral (
             select 1 from tidemill.job_queue_entries e
             where e.queue_id = p_queue_id and e.lane = l.lane and e.priority = l.priority and e.run_at <= p_now limit p_limit) d
         where l.queue_id = p_queue_id and l.due_at <= p_now
         limit p_limit)
        limit p_limit) x;
end;

-- on_saturated = cancel_running: asks the oldest of lowest priority to stop (of a queue's counted leases, or of a type's), one at a time and
-- never more than wait for a place. Its worker is told on its channel, where it listens, and else learns it from the next heartbeat.
create function tidemill.stop_oldest(p_queue_id uuid, p_type_key bigint, p_waiting bigint, p_now timestamptz) returns void
language plpgsql as $$
declare
    v_asked bigint;
    v_job uuid;
    v_worker uuid;
begin
    if p_type_key is null then
        select count(*) into v_asked from (
            select 1 from tidemill.job_leases l where l.queue_id = p_queue_id and l.traits & 128 <> 0 and l.cancel_requested_at is not null limit p_waiting) x;
        select l.job_id into v_job from tidemill.job_leases l
        where l.queue_id = p_queue_id and l.traits & 128 <> 0 and l.cancel_requested_at is null
        order by l.priority, l.claimed_at limit 1 for update skip locked;
    else
        select count(*) into v_asked from (
            select 1 from tidemill.job_leases l where l.type_key = p_type_key and l.cancel_requested_at is not null limit p_waiting) x;
        select l.job_id into v_job from tidemill.job_leases l
        where l.type_key = p_type_key and l.cancel_requested_at is null
        order by l.priority, l.claimed_at limit 1 for update skip locked;
    end if;
    if v_asked < p_waiting and v_job is not null then
        update tidemill.job_leases l set cancel_requested_at = p_now where l.job_id = v_job returning l.worker_id into v_worker;
        if v_worker is not null then
            perform pg_notify('tidemill_word_' || replace(v_worker::text, '-', ''), '');
        end if;
    end if;
end $$;

-- Claims from one gated queue: at most p_limit due jobs, with every gate of API.md §4 in the order that explain reports them. Serialised per queue by
-- a transaction-scoped lock that is tried, never waited for; each limit that reaches over queues is counted under a lock of its own, in a statement that
-- begins after the lock is held. Takes partitions by smallest virtual finish time (weighted fair queueing, Demers et al. 1989; start of an idle one = the
-- queue's clock), within a partition the highest priority, then the earliest due lane. Returns the leases; one row of nulls if another claim is at this queue.
-- A standing limit of a job type counts leases by type_key, under that key's lock; what of such a type still stands in lane 0 is moved to its lane first.
create function tidemill.claim_gated(
    p_queue_id uuid, p_worker_id uuid, p_limit integer, p_job_types text[], p_lease_ms bigint, p_start boolean, p_now timestamptz)
returns table (job_id uuid, lease_token uuid, attempt integer, fence bigint, priority smallint, run_at timestamptz, lease_expires_at timestamptz)
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_queue tidemill.queues;
    v_worker text;
    v_types text[];          -- job types with a standing limit, how many may run, what to do when they do
    v_most integer[];
    v_rules tidemill.saturation_rule[];
    v_free integer[];        -- places left in this round; null: not counted yet; -1: another claim counts them
    v_asking integer[];      -- jobs that found none
    v_at integer;
    v_first integer;
    v_is_full boolean := false;
    v_is_bare boolean;       -- a lane of this round has no entries left
    v_shut text[];           -- types and rate classes that let nobody in at all, found in this round
    v_dry text[];
    v_dry_again timestamptz; -- when the last of them has a token again, and in which time it earns one
    v_token_secs double precision;
    v_places tid[];
    v_away bigint[];         -- limits that another claim counts at the moment
    v_full bigint[];         -- lanes whose limit this round fills
    v_swept integer := 0;
    v_room integer := p_limit;
    v_max integer;
    v_rule tidemill.saturation_rule;
    v_clock double precision;
    v_empty smallint[] := '{}';
    v_row record;
    v_rate tidemill.rate_classes;
    v_tokens double precision;
    v_spent double precision;
    v_blocked text;
    v_again timestamptz;
    v_n integer;
    v_count integer;
    v_taken integer;
    v_depth integer;
    v_lanes bigint[];
    v_levels smallint[];
    v_parts text[];
    v_wants integer[];
    v_keys bigint[];
    v_limits integer[];
    v_locked boolean[];
    v_lefts integer[];       -- places left of each lane's limit
    v_special boolean;
    v_limited boolean;
    v_turn double precision;
    v_others text[] := '{}';
    v_jobs uuid[];
    v_times timestamptz[];
    v_woken text[] := '{}';
    v_seed bytea := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());  -- one draw for all tokens, which are hashes of it and the job
begin
    if not pg_try_advisory_xact_lock(tidemill.queue_lock(p_queue_id)) then
        return next;  -- another claim is at this queue
        return;
    end if;
    -- who sets a limit holds this table until what runs is counted (store/sql/limits/hold_claims.sql): what is read from here on is as of after that
    lock table tidemill.job_leases in row exclusive mode;
    select q.* into v_queue from tidemill.queues q where q.id = p_queue_id and not q.is_paused;
    if not found then
        return;
    end if;

    -- queue concurrency, and standing limits on the queue
    v_max := v_queue.max_concurrency;
    v_rule := v_queue.on_saturated;
    for v_row in select c.max_concurrent, c.on_saturated from tidemill.concurrency_limits c where c.queue_id = p_queue_id loop
        if v_max is null or v_row.max_concurrent < v_max then
            v_max := v_row.max_concurrent;
            v_rule := v_row.on_saturated;
        end if;
    end loop;
    if v_max is not null then
        select count(*) into v_count from (
            select 1 from tidemill.job_leases l where l.queue_id = p_queue_id and l.traits & 128 <> 0 limit v_max + 1) x;
        v_room := least(v_room, v_max - v_count);
        v_is_full := v_room <= 0;
        if v_is_full and v_rule = 'queue' then
            return;
        end if;
    end if;

    -- job types with standing limits: what stands in lane 0 goes to its own
    select coalesce(array_agg(t.job_type), '{}'), coalesce(array_agg(t.most), '{}'), coalesce(array_agg(t.rule), '{}')
    into v_types, v_most, v_rules
    from (
        select c.job_type::text, min(c.max_concurrent) as most, (array_agg(c.on_saturated order by c.max_concurrent))[1] as rule
        from tidemill.concurrency_limits c
        where c.project_id = v_queue.project_id and c.job_type is not null
        group by c.job_type) t;
    if v_types <> '{}' and exists (
        select 1
        from (select distinct i.priority from tidemill.queue_levels i where i.queue_id = p_queue_id) v
        cross join lateral (
            select e.job_id from tidemill.job_queue_entries e
            where e.queue_id = p_queue_id and e.lane = 0 and e.priority = v.priority and e.run_at <= v_now
            order by e.run_at, e.job_id limit least(500, 2 * p_limit + 20)) d
        cross join lateral (select 1 from tidemill.jobs j where j.id = d.job_id and j.job_type = any(v_types) limit 1) j)
    then
        perform tidemill.relane(p_queue_id, v_types, least(500, 2 * p_limit + 20), v_now);
    end if;

    -- the news: lanes that got entries or lost what stood in front, limits that have places again (at most 2,000 at a time, what is committed by now)
    with read as (
        delete from tidemill.lane_news n
        where n.id = any(array(select m.id from tidemill.lane_news m where m.queue_id = p_queue_id order by m.id limit 2000 for update skip locked))
        returning n.job_id, n.run_at, n.limit_key, n.lane, n.priority
    )
    select array_agg(r.job_id) filter (where r.job_id is not null), array_agg(r.run_at) filter (where r.job_id is not null),
           array_agg(distinct r.limit_key) filter (where r.limit_key is not null),
           array_agg(r.lane) filter (where r.lane is not null), array_agg(r.priority) filter (where r.lane is not null)
    into v_jobs, v_times, v_keys, v_lanes, v_levels from read r;
    if v_jobs is not null then
        for v_row in
            insert into tidemill.queue_lanes as l (
                queue_id, lane, priority, partition_key, job_type, limit_key, concurrency_limit, rate_class, sticky_worker, due_at, is_ready, look_at)
            select distinct on (j.lane, j.priority) p_queue_id, j.lane, j.priority, coalesce(j.partition_key, ''), j.job_type,
                   case when j.concurrency_limit is not null then tidemill.limit_key(j.project_id, j.job_type, j.concurrency_key) end,
                   j.concurrency_limit, j.rate_class, j.sticky_worker, n.run_at, n.run_at <= v_now, n.run_at
            from rows from (unnest(v_jobs), unnest(v_times)) as n (job_id, run_at)
            cross join lateral (select i.* from tidemill.jobs i where i.id = n.job_id and i.queue_id = p_queue_id and i.lane > 0 limit 1) j
            -- what would change nothing is left out here: a conflict that does nothing locks, and writes, the row all the same
            where (select o.due_at <= n.run_at and o.blocked_by is distinct from 'rate_class' from tidemill.queue_lanes o
                   where o.queue_id = p_queue_id and o.lane = j.lane and o.priority = j.priority limit 1) is not true
            order by j.lane, j.priority, n.run_at
            on conflict (queue_id, lane, priority) do update
            set due_at = least(l.due_at, excluded.due_at),
                is_ready = l.blocked_by is distinct from 'concurrency_key' and (l.is_ready or excluded.is_ready or l.due_at <= v_now),
                look_at = case when l.blocked_by is distinct from 'concurrency_key' then least(l.look_at, excluded.look_at) else l.look_at end,
                blocked_by = nullif(l.blocked_by, 'rate_class'),
                blocked_since = case when l.blocked_by is distinct from 'rate_class' then l.blocked_since end
            -- what blocked a lane at its rate may have been the dear job in front: news are worth another look
            where l.due_at > excluded.due_at or l.blocked_by = 'rate_class'
            returning l.partition_key, l.is_ready
        loop
            if v_row.is_ready then
                v_woken := v_woken || v_row.partition_key;
            end if;
        end loop;
    end if;

    -- what has come due, is due for another look, or waits for a limit that has places again
    for v_row in
        update tidemill.queue_lanes l
        set is_ready = l.due_at <= v_now, look_at = l.due_at, blocked_by = null, blocked_since = null
        where l.ctid = any(array(  -- by place: nobody else moves them under the queue's lock
            (select w.ctid from tidemill.queue_lanes w
             where w.queue_id = p_queue_id and not w.is_ready and w.look_at <= v_now
             order by w.look_at limit 500)
            union all
            (select w.ctid from unnest(v_keys) as k (key)
             cross join lateral (
                 select o.ctid from tidemill.queue_lanes o
                 where o.limit_key = k.key and o.queue_id = p_queue_id and o.blocked_by = 'concurrency_key' limit 100) w)
            union all
            -- a type's lanes wait in line: those that were woken in vain go to its end
            (select w.ctid from unnest(v_keys) as k (key)
             cross join lateral (
                 select o.ctid from tidemill.queue_lanes o
                 where o.type_key = k.key and o.queue_id = p_queue_id and o.blocked_by = 'concurrency_key'
                 order by o.blocked_since limit 2 * p_limit + 10) w)
            union all
            (select o.ctid from unnest(v_lanes, v_levels) as n (lane, priority)
             cross join lateral (
                 select r.ctid from tidemill.queue_lanes r
                 where r.queue_id = p_queue_id and r.lane = n.lane and r.priority = n.priority and r.blocked_by = 'rate_class' limit 1) o)))
        returning l.partition_key, l.is_ready
    loop
        if v_row.is_ready then
            v_woken := v_woken || v_row.partition_key;
        end if;
    end loop;
    -- what has no gates of its own has a turn while some of it is due: a turn that brings nothing costs a whole round
    if exists (select 1 from tidemill.queue_levels v
               cross join lateral (
                   select 1 from tidemill.job_queue_entries e
                   where e.queue_id = p_queue_id and e.lane = 0 and e.priority = v.priority and e.run_at <= v_now limit 1) d
               where v.queue_id = p_queue_id) then
        v_woken := v_woken || ''::text;
    end if;
    if v_woken <> '{}' then
        perform tidemill.ready_partitions(p_queue_id, v_woken);
    end if;
    if v_is_full then
        perform tidemill.stop_oldest(p_queue_id, null, tidemill.due_count(p_queue_id, least(v_max, 100), v_now), v_now);
        return;
    end if;
    select w.name into v_worker from tidemill.workers w where w.id = p_worker_id;
    -- workers that live and are not this one: what sticks to them is theirs
    if exists (select 1 from tidemill.queue_lanes l where l.queue_id = p_queue_id and l.sticky_worker is not null) then
        v_others := array(
            select w.name from tidemill.workers w
            where w.project_id = v_queue.project_id and w.status in ('running', 'quiet') and w.name is distinct from v_worker
              and w.last_seen_at > v_now - make_interval(secs => greatest(30, w.lease_ms / 1000.0))
            limit 10000);
    end if;

    for v_round in 1..50 loop
        exit when v_room <= 0;

        -- whose turn it is, and how many each may take before the others' turns come
        v_depth := greatest(1, ceil(2.0 * v_room / greatest(1, (select count(*) from (
            select 1 from tidemill.queue_partitions p where p.queue_id = p_queue_id and p.is_ready limit v_room) x)))::integer);
        with parts as materialized (
            select p.partition_key, p.virtual_finish, p.weight
            from tidemill.queue_partitions p
            where p.queue_id = p_queue_id and p.is_ready
            order by p.virtual_finish, p.partition_key
            limit least(v_room, 500)
        ), slots as (
            select s.partition_key, count(*)::integer as n, min(s.finish) as turn
            from (select p.partition_key, p.virtual_finish + j::double precision / p.weight as finish
                  from parts p cross join generate_series(0, v_depth - 1) as j
                  order by finish, p.partition_key limit v_room) s
            group by s.partition_key
        ), offered as (
            -- each partition's best lanes, as many as it may take jobs; a lane of many gives as many as evens out
            select c.*, least(c.per_lane, c.most - (c.nth - 1) * c.per_lane) as n
            from (
                select s.partition_key, s.turn, s.n as most, o.lane, o.priority, o.limit_key, o.concurrency_limit, o.special,
                       row_number() over (partition by s.partition_key order by o.priority desc, o.due_at, o.lane)::integer as nth,
                       ceil(s.n::numeric / count(*) over (partition by s.partition_key))::integer as per_lane
                from slots s
                cross join lateral (
                    select a.* from (
                        (select l.lane, l.priority, l.due_at, l.limit_key, l.concurrency_limit,
                                l.rate_class is not null or l.job_type = any(v_types) as special
                         from tidemill.queue_lanes l
                         where l.queue_id = p_queue_id and l.partition_key = s.partition_key and l.is_ready
                           and (p_job_types is null or l.job_type = any(p_job_types))
                           and (l.sticky_worker is null or not (l.sticky_worker = any(v_others)))
                         order by l.priority desc, l.due_at, l.lane limit s.n)
                        union all
                        (select 0::bigint, v.priority, h.run_at, null, null, false
                         from tidemill.queue_levels v
                         cross join lateral (
                             select e.run_at from tidemill.job_queue_entries e
                             where e.queue_id = p_queue_id and e.lane = 0 and e.priority = v.priority and e.run_at <= v_now
                             order by e.run_at limit 1) h
                         where s.partition_key = '' and v.queue_id = p_queue_id and not (v.priority = any(v_empty))
                         order by v.priority desc limit 1)) a
                    order by a.priority desc, a.due_at, a.lane limit s.n) o
            ) c
        ), chosen as (
            select f.*, row_number() over (partition by f.limit_key order by f.turn, f.nth) as of_limit from offered f where f.n > 0
        )
        select array_agg(c.lane order by c.turn, c.partition_key, c.nth), array_agg(c.priority order by c.turn, c.partition_key, c.nth),
               array_agg(c.partition_key order by c.turn, c.partition_key, c.nth), array_agg(c.n order by c.turn, c.partition_key, c.nth),
               array_agg(c.limit_key order by c.turn, c.partition_key, c.nth), array_agg(c.concurrency_limit order by c.turn, c.partition_key, c.nth),
               bool_or(c.special), bool_or(c.limit_key is not null), min(c.turn)
        into v_lanes, v_levels, v_parts, v_wants, v_keys, v_limits, v_special, v_limited, v_turn
        from chosen c where c.limit_key is null or c.of_limit = 1;
        v_clock := coalesce(v_turn, v_clock);

        -- partitions whose turn it is but which have nothing to give leave the circle until something readies them again
        update tidemill.queue_partitions p set is_ready = false
        where p.ctid = any(array(
            select i.ctid from (
                select o.ctid, o.partition_key from tidemill.queue_partitions o
                where o.queue_id = p_queue_id and o.is_ready
                order by o.virtual_finish, o.partition_key limit least(v_room, 500)) i
            -- one look-up by key for each, in the order of the index that has it: `not exists` may read all lanes for each of them
            where case when (select l.lane from tidemill.queue_lanes l
                             where l.queue_id = p_queue_id and l.partition_key = i.partition_key and l.is_ready
                             order by l.priority desc, l.due_at, l.lane limit 1) is null
                       then not (i.partition_key = any(coalesce(v_parts, '{}'))) else false end));
        exit when v_lanes is null and not found;
        continue when v_lanes is null;

        -- limits over all queues: lock first, count in the next statement, whose snapshot is younger than the lock
        if v_limited then
            v_locked := array(select v_keys[i] is null or pg_try_advisory_xact_lock(v_keys[i]) from generate_subscripts(v_lanes, 1) as i order by i);
            v_lefts := array(
                select case when v_locked[i] then greatest(0, v_limits[i] - (
                                select count(*) from (select 1 from tidemill.job_leases l where l.limit_key = v_keys[i] limit v_limits[i]) x)::integer)
                            else 0 end
                from generate_subscripts(v_lanes, 1) as i order by i);
            v_wants := array(
                select case when v_keys[i] is null then v_wants[i] else least(v_wants[i], v_lefts[i]) end
                from generate_subscripts(v_lanes, 1) as i order by i);
            v_away := array(select v_keys[i] from generate_subscripts(v_lanes, 1) as i where not v_locked[i]);
            update tidemill.queue_lanes l
            set is_ready = false, blocked_by = 'concurrency_key', blocked_since = coalesce(l.blocked_since, v_now),
                look_at = v_now + case when l.limit_key = any(v_away) then interval '5 milliseconds' else interval '5 seconds' * (0.8 + 0.4 * random()) end
            where l.ctid = any(array(
                select o.ctid from generate_subscripts(v_lanes, 1) as i
                cross join lateral (
                    select r.ctid from tidemill.queue_lanes r
                    where r.queue_id = p_queue_id and r.lane = v_lanes[i] and r.priority = v_levels[i] limit 1) o
                where v_keys[i] is not null and v_wants[i] = 0));
        end if;

        -- standing limits of a job type and rate classes: lane by lane
        v_free := array_fill(null::integer, array[cardinality(v_types)]);
        v_asking := array_fill(0, array[cardinality(v_types)]);
        v_shut := '{}';
        v_dry := '{}';
        for v_row in
            select i, l.rate_class, l.job_type
            from generate_subscripts(v_lanes, 1) as i
            cross join lateral (
                select o.rate_class, o.job_type from tidemill.queue_lanes o
                where o.queue_id = p_queue_id and o.lane = v_lanes[i] and o.priority = v_levels[i] limit 1) l
            where v_special and v_wants[i] > 0 and (l.rate_class is not null or l.job_type = any(v_types))
            order by i
        loop
            v_blocked := null;
            v_n := v_wants[v_row.i];
            v_at := array_position(v_types, v_row.job_type);
            if v_at is not null then
                if v_free[v_at] is null then
                    if pg_try_advisory_xact_lock(tidemill.type_key(v_queue.project_id, v_row.job_type)) then
                        v_free[v_at] := v_most[v_at] - (
                            select count(*) from (select 1 from tidemill.job_leases l
                                                  where l.type_key = tidemill.type_key(v_queue.project_id, v_row.job_type) limit v_most[v_at]) x)::integer;
                    else
                        v_free[v_at] := -1;
                    end if;
                end if;
                if v_free[v_at] <= 0 then
                    v_blocked := 'concurrency_key';
                    v_again := v_now + case when v_free[v_at] < 0 then interval '5 milliseconds' else interval '20 seconds' * (0.8 + 0.4 * random()) end;
                    if v_free[v_at] = 0 then
                        v_asking[v_at] := v_asking[v_at] + v_n;
                        v_shut := v_shut || v_row.job_type::text;
                    end if;
                end if;
                v_n := least(v_n, v_free[v_at]);
            end if;
            if v_blocked is null and v_row.rate_class is not null then
                select r.* into v_rate from tidemill.rate_classes r
                where r.project_id = v_queue.project_id and r.name = v_row.rate_class for no key update skip locked;
                if found then
                    v_tokens := tidemill.tokens_now(v_rate, v_now);
                    select count(*) filter (where x.fits), coalesce(sum(x.cost) filter (where x.fits), 0), min(x.cost) filter (where x.upto = x.cost)
                    into v_count, v_spent, v_first
                    -- a job dearer than the bucket passes when the bucket is full
                    from (select h.cost, h.upto, h.upto <= v_tokens + 1e-9 or (h.upto = h.cost and v_tokens >= v_rate.burst) as fits
                          from (select e.cost, sum(e.cost) over (order by e.run_at, e.job_id) as upto
                                from (select coalesce(c.weight, 1) as cost, c.run_at, c.job_id from tidemill.job_queue_entries c
                                      where c.queue_id = p_queue_id and c.lane = v_lanes[v_row.i] and c.priority = v_levels[v_row.i] and c.run_at <= v_now
                                      order by c.run_at, c.job_id limit v_n) e) h) x;
                    if v_count > 0 then
                        v_n := least(v_n, v_count);
                        -- never back in time: two claims that began in the other order would both count the time between
                        update tidemill.rate_classes r set tokens = v_tokens - v_spent, refilled_at = greatest(r.refilled_at, v_now)
                        where r.project_id = v_queue.project_id and r.name = v_row.rate_class;
                    elsif v_first is not null then  -- else nothing of the lane is due any more, which the take finds
                        v_blocked := 'rate_class';
                        v_again := case when v_rate.is_paused then v_now + interval '1 minute'
                            else greatest(v_now, v_rate.closed_until, v_rate.refilled_at) + make_interval(secs => greatest(0.001,
                                (least(v_rate.burst::double precision, v_first) - case when v_rate.closed_until > v_now then v_rate.tokens else v_tokens end)
                                * v_rate.window_ms / v_rate."limit" / 1000.0)) end;
                        if v_tokens < 1 then
                            v_dry := v_dry || v_row.rate_class::text;
                            v_dry_again := v_again;
                            v_token_secs := v_rate.window_ms / 1000.0 / v_rate."limit";
                        end if;
                    end if;
                elsif exists (select 1 from tidemill.rate_classes r where r.project_id = v_queue.project_id and r.name = v_row.rate_class) then
                    v_blocked := 'rate_class';
                    v_again := v_now + interval '5 milliseconds';
                end if;
            end if;
            if v_blocked is not null then
                v_wants[v_row.i] := 0;
                update tidemill.queue_lanes l
                set is_ready = false, blocked_by = v_blocked, blocked_since = coalesce(l.blocked_since, v_now), look_at = v_again,
                    type_key = case when v_at is not null then tidemill.type_key(v_queue.project_id, v_row.job_type) end
                where l.queue_id = p_queue_id and l.lane = v_lanes[v_row.i] and l.priority = v_levels[v_row.i];
            else
                v_wants[v_row.i] := v_n;
                if v_at is not null then
                    v_free[v_at] := v_free[v_at] - v_n;
                end if;
            end if;
        end loop;
        for v_at in 1..cardinality(v_types) loop
            if v_asking[v_at] > 0 and v_rules[v_at] = 'cancel_running' then
                perform tidemill.stop_oldest(null, tidemill.type_key(v_queue.project_id, v_types[v_at]), v_asking[v_at], v_now);
            end if;
        end loop;

        -- what waits at a gate that lets nobody in is set aside at once, so that thousands of such lanes do not stand in front of what may go; their
        -- looks are spread over the time in which the class earns a token for each. At most 5,000 lanes in a claim: the next one goes on
        if (v_shut <> '{}' or v_dry <> '{}') and v_swept < 5 then
            v_swept := v_swept + 1;
            v_places := array(  -- by place, because a join would read all lanes for each; nobody else moves them under the queue's lock
                select r.ctid
                from (select o.ctid, o.lane, o.job_type, o.rate_class from tidemill.queue_lanes o where o.queue_id = p_queue_id and o.is_ready limit 5000) r
                where (r.job_type = any(v_shut) or r.rate_class = any(v_dry)) and not (r.lane = any(v_lanes))
                limit 1000);
            update tidemill.queue_lanes l
            set is_ready = false, blocked_by = case when l.job_type = any(v_shut) then 'concurrency_key' else 'rate_class' end, blocked_since = v_now,
                look_at = case when l.job_type = any(v_shut) then v_now + interval '2 minutes' * (0.5 + random())
                               else v_dry_again + make_interval(secs => least(60, cardinality(v_places) * coalesce(v_token_secs, 0)) * random()) end,
                type_key = case when l.job_type = any(v_shut) then tidemill.type_key(v_queue.project_id, l.job_type) end
            where l.ctid = any(v_places);
            update tidemill.queue_partitions p set is_ready = false
            where p.ctid = any(array(
                select i.ctid from (
                    select o.ctid, o.partition_key from tidemill.queue_partitions o
                    where o.queue_id = p_queue_id and o.is_ready
                    order by o.virtual_finish, o.partition_key limit 1000) i
                where i.partition_key <> ''
                  and case when (select l.lane from tidemill.queue_lanes l
                                 where l.queue_id = p_queue_id and l.partition_key = i.partition_key and l.is_ready
                                 order by l.priority desc, l.due_at, l.lane limit 1) is null
                           then not (i.partition_key = any(v_parts)) else false end));
        end if;

        -- take
        v_taken := 0;
        for v_row in
            with want as materialized (
                select i, v_lanes[i] as lane, v_levels[i] as priority, v_parts[i] as partition_key, v_wants[i] as n
                from generate_subscripts(v_lanes, 1) as i where v_wants[i] > 0
            ), taken as (
                delete from tidemill.job_queue_entries e
                where e.ctid = any(array(
                    select d.ctid from want w
                    cross join lateral (
                        select c.ctid from tidemill.job_queue_entries c
                        where c.queue_id = p_queue_id and c.lane = w.lane and c.priority = w.priority and c.run_at <= v_now
                          and (w.lane <> 0 or ((p_job_types is null and cardinality(v_types) = 0) or exists (
                              select 1 from tidemill.jobs j where j.id = c.job_id
                                and (p_job_types is null or j.job_type = any(p_job_types)) and not (j.job_type = any(v_types)))))
                        order by c.run_at, c.job_id limit w.n for update skip locked) d))
                returning e.lane, e.priority, e.run_at, e.job_id, e.attempt_count, e.fence, e.traits, e.weight
            ), aside as materialized (
                -- of what was taken, the quarantined: not leased
                select case when exists (select 1 from tidemill.quarantine x where x.project_id = v_queue.project_id and x.is_quarantined)
                            then tidemill.set_aside(v_queue.project_id, array_agg(t.job_id), array_agg(t.attempt_count), array_agg(t.fence),
                                                    'moving', v_now) end as ids
                from taken t
            ), leased as (
                insert into tidemill.job_leases (
                    job_id, lease_token, queue_id, worker_id, attempt, fence, priority, traits, run_at, claimed_at, started_at, lease_expires_at,
                    lease_ms, weight, lane, limit_key, partition_key, type_key)
                select t.job_id, encode(substr(sha256(v_seed || uuid_send(t.job_id)), 1, 16), 'hex')::uuid, p_queue_id, p_worker_id, t.attempt_count + 1, t.fence + 1, t.priority, (t.traits | 128)::smallint,
                       t.run_at, v_now, case when p_start then v_now end, v_now + make_interval(secs => m.ms / 1000.0), m.ms, t.weight, t.lane,
                       l.limit_key, l.partition_key,
                       case when l.job_type = any(v_types) then tidemill.type_key(v_queue.project_id, l.job_type) end
                from taken t
                cross join (select coalesce(p_lease_ms, v_queue.visibility_timeout_secs * 1000::bigint) as ms) m
                -- one look-up by key for each: a join may read all lanes for each of them
                left join lateral (
                    select o.limit_key, o.partition_key, o.job_type from tidemill.queue_lanes o
                    where o.queue_id = p_queue_id and o.lane = t.lane and o.priority = t.priority limit 1) l on true
                where not (t.job_id = any(coalesce((select a.ids from aside a), '{}')))
                returning job_id, lease_token, attempt, fence, priority, run_at, lease_expires_at, partition_key, weight
            ), begun as (
                delete from tidemill.unique_holds h
                where p_start and (h.project_id, h.kind, h.key) in (
                    select u.project_id, u.kind, u.key from taken t
                    join tidemill.unique_holds u on u.job_id = t.job_id and u.kind = 'unique'
                    where t.traits & 2 <> 0 order by u.key for update of u)
            ), charges as materialized (
                select array_agg(c.partition_key order by c.partition_key collate "C") as keys, array_agg(c.cost order by c.partition_key collate "C") as costs
                from (select coalesce(l.partition_key, '') as partition_key, sum(coalesce(l.weight, 1))::double precision as cost from leased l group by 1) c
            ), charged as (
                update tidemill.queue_partitions p
                set virtual_finish = p.virtual_finish + (select c.costs[width_bucket(p.partition_key collate "C", c.keys)] from charges c) / p.weight, served_at = v_now
                where p.ctid = any(array(
                    select o.ctid from charges c
                    cross join unnest(c.keys) as k (key)
                    cross join lateral (
                        select i.ctid from tidemill.queue_partitions i where i.queue_id = p_queue_id and i.partition_key = k.key limit 1) o))
            )
            select l.* from leased l
        loop
            v_taken := v_taken + 1;
            job_id := v_row.job_id; lease_token := v_row.lease_token; attempt := v_row.attempt; fence := v_row.fence;
            priority := v_row.priority; run_at := v_row.run_at; lease_expires_at := v_row.lease_expires_at;
            return next;
        end loop;
        v_room := v_room - v_taken;

        -- What the lanes look like after that (an entry that is committed later brings its own news). Those that the round has filled to their limit
        -- wait for one of these leases to end. By place and key by key, because a join may read all lanes for each of them.
        v_full := case when v_limited and v_taken = (select sum(w.n) from unnest(v_wants) as w (n)) then array(
            select v_lanes[i] from generate_subscripts(v_lanes, 1) as i where v_keys[i] is not null and v_lefts[i] = v_wants[i] and v_wants[i] > 0)
            else '{}' end;
        v_places := array(
            select o.ctid from generate_subscripts(v_lanes, 1) as i
            cross join lateral (
                select r.ctid from tidemill.queue_lanes r
                where r.queue_id = p_queue_id and r.lane = v_lanes[i] and r.priority = v_levels[i] limit 1) o
            where v_wants[i] > 0 and v_lanes[i] <> 0);
        delete from tidemill.queue_lanes l
        where l.ctid = any(v_places)
          and (select e.run_at from tidemill.job_queue_entries e
               where e.queue_id = p_queue_id and e.lane = l.lane and e.priority = l.priority order by e.run_at limit 1) is null;
        v_is_bare := found;
        update tidemill.queue_lanes l
        set (due_at, is_ready, look_at, blocked_by, blocked_since) = (
            select h.run_at, h.run_at <= v_now and not h.is_full,
                   case when h.is_full then greatest(h.run_at, v_now + interval '5 seconds' * (0.8 + 0.4 * random())) else h.run_at end,
                   case when h.is_full then 'concurrency_key' end, case when h.is_full then v_now end
            from (select coalesce((select e.run_at from tidemill.job_queue_entries e
                                   where e.queue_id = p_queue_id and e.lane = l.lane and e.priority = l.priority order by e.run_at limit 1), v_now) as run_at,
                         l.lane = any(v_full) as is_full offset 0) h)
        where l.ctid = any(v_places);
        if v_is_bare then  -- partitions that have lost their last lane leave the circle now: there may be no next claim at this queue
            update tidemill.queue_partitions p set is_ready = false
            where p.ctid = any(array(
                select o.ctid from (select distinct n.key from unnest(v_parts) as n (key)) k
                cross join lateral (
                    select i.ctid from tidemill.queue_partitions i
                    where i.queue_id = p_queue_id and i.partition_key = k.key and i.is_ready limit 1) o
                where k.key <> ''
                  and (select l.lane from tidemill.queue_lanes l
                       where l.queue_id = p_queue_id and l.partition_key = k.key and l.is_ready
                       order by l.priority desc, l.due_at, l.lane limit 1) is null));
        end if;
        v_empty := v_empty || array(
            select v_levels[i] from generate_subscripts(v_lanes, 1) as i
            where v_lanes[i] = 0 and v_taken < v_wants[i]);
        -- nothing came of a whole round though lanes seemed ready: somebody holds their entries; leave the rest to the next claim
        exit when v_taken = 0 and not exists (select 1 from generate_subscripts(v_lanes, 1) as i where v_wants[i] = 0);
    end loop;

    if v_clock is not null then
        insert into tidemill.queue_clocks as c (queue_id, virtual_time) values (p_queue_id, v_clock)
        on conflict (queue_id) do update set virtual_time = greatest(c.virtual_time, excluded.virtual_time);
    end if;
end $$;

-- Backpressure: queues.max_unfinished_jobs.

-- Which projects have such queues at all: what an enqueue into any other queue pays is one look into this.
-- squawk-ignore require-concurrent-index-creation
create index queues_bounded on tidemill.queues (project_id) where max_unfinished_jobs is not null; -- a table of few rows
-- squawk-ignore require-concurrent-index-creation
create index jobs_waiting on tidemill.jobs (queue_id) where phase = 'waiting'; -- before the first release there are no large tables

-- Of each bounded queue: how many unfinished jobs it holds at most. Raised under the queue's fill lock by every enqueue, lowered only by counting.
create table tidemill.queue_fills (
    queue_id uuid primary key references tidemill.queues (id) on delete cascade,
    at_most bigint not null check (at_most >= 0),
    counted_at timestamptz not null default clock_timestamp()
) with (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

create function tidemill.fill_lock(queue_id uuid) returns bigint
language sql immutable parallel safe
return hashtextextended(queue_id::text, 4242);

-- How many unfinished jobs (pending, scheduled, queued, claimed, running) a queue holds, counted no further than p_limit + 1.
create function tidemill.unfinished(p_queue_id uuid, p_limit bigint) returns bigint
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
begin atomic
    select count(*) from (
        (select 1 from tidemill.job_queue_entries e where e.queue_id = p_queue_id limit p_limit + 1)
        union all
        (select 1 from tidemill.job_leases l where l.queue_id = p_queue_id limit p_limit + 1)
        union all
        (select 1 from tidemill.jobs j where j.queue_id = p_queue_id and j.phase = 'waiting' limit p_limit + 1)
        limit p_limit + 1) x;
end;

-- How many of p_wanted new jobs a queue has room for; charges them. Under the queue's fill lock. Counts only when what is known at most leaves no room,
-- and above 10,000 not more often than a count may cost a tenth of the time: 50 ms per 10,000. So the answer is exact up to 10,000; above that it may
-- be too small for that long, and is never too large.
create function tidemill.take_room(p_queue_id uuid, p_wanted bigint) returns bigint
language plpgsql as $$
declare
    v_most bigint;
    v_fill tidemill.queue_fills;
    v_now timestamptz := clock_timestamp();
begin
    select q.max_unfinished_jobs into v_most from tidemill.queues q where q.id = p_queue_id;
    if v_most is null then
        return p_wanted;
    end if;
    select f.* into v_fill from tidemill.queue_fills f where f.queue_id = p_queue_id;
    if v_fill.queue_id is null or (v_fill.at_most + p_wanted > v_most and (
        v_most <= 10000 or v_fill.counted_at <= v_now - make_interval(secs => least(30, v_most * 0.000005))))
    then
        insert into tidemill.queue_fills as f (queue_id, at_most, counted_at) values (p_queue_id, tidemill.unfinished(p_queue_id, v_most), v_now)
        on conflict (queue_id) do update set at_most = excluded.at_most, counted_at = excluded.counted_at
        returning f.* into v_fill;
    end if;
    p_wanted := greatest(0, least(p_wanted, v_most - v_fill.at_most));
    if p_wanted > 0 then
        update tidemill.queue_fills f set at_most = f.at_most + p_wanted where f.queue_id = p_queue_id;
    end if;
    return p_wanted;
end $$;

-- Each given job's position (from 0), queue and keys, as take_holds understands them.
create function tidemill.given_keys(p_jobs jsonb) returns table (pos integer, queue text, idempotency bytea, uniqueness bytea)
language sql stable
begin atomic
    select (e.ord - 1)::integer, coalesce(e.job ->> 'queue', 'default'), sha256(convert_to(e.job ->> 'idempotency_key', 'UTF8')),
           case when jsonb_typeof(e.job -> 'unique') = 'object'
                then tidemill.unique_key(e.job ->> 'job_type', coalesce(e.job -> 'payload', '{}'), e.job -> 'unique' -> 'by') end
    from jsonb_array_elements(p_jobs) with ordinality as e (job, ord);
end;

-- Creates jobs like enqueue_results, as far as their queues have room. A job that an existing one answers for takes none. p_atomic: if one finds no
-- room, nothing is stored, and only those that found none are returned, with code queue_full. Otherwise the first ones go in, and those that depend on
-- one that does not stay out with it. Locks: fill locks in queue order, until the transaction ends; then as enqueue_results.
create function tidemill.admit(p_project_id uuid, p_jobs jsonb, p_atomic boolean, p_now timestamptz default null)
returns table ("index" integer, job_id uuid, state tidemill.job_status, deduplicated boolean, code text, field text, message text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_queue record;
    v_row record;
    v_new integer[];         -- positions (from 0) in this queue that would make a job
    v_room integer;
    v_out integer[] := '{}'; -- positions that find no room
    v_texts jsonb := '{}';   -- what their refusal says, by position
    v_more integer[];
    v_pos integer[];         -- positions of those that go in
    v_allowed jsonb := '{}'; -- how many new ones each bounded queue has room for
begin
    if jsonb_typeof(p_jobs) is distinct from 'array'
       or not exists (select 1 from tidemill.queues q where q.project_id = p_project_id and q.max_unfinished_jobs is not null) then
        return query select r.* from tidemill.enqueue_results(p_project_id, p_jobs, p_atomic, p_now) r;
        return;
    end if;

    for v_queue in
        select q.id, q.name::text as name, q.max_unfinished_jobs as most
        from tidemill.queues q
        where q.project_id = p_project_id and q.max_unfinished_jobs is not null and not q.is_closed
          and q.name::text = any(array(select distinct coalesce(e.job ->> 'queue', 'default') from jsonb_array_elements(p_jobs) as e (job)))
        order by q.id
    loop
        perform pg_advisory_xact_lock(tidemill.fill_lock(v_queue.id));
        select array_agg(w.pos order by w.pos) into v_new
        from (
            select k.pos, k.idempotency, k.uniqueness,
                   row_number() over (partition by k.idempotency order by k.pos) as nth_idempotency,
                   row_number() over (partition by k.uniqueness order by k.pos) as nth_unique
            from tidemill.given_keys(p_jobs) k
            where k.queue = v_queue.name
              and not exists (select 1 from tidemill.unique_holds h
                              where h.project_id = p_project_id and h.kind = 'idempotency' and h.key = k.idempotency)
              and not exists (select 1 from tidemill.unique_holds h
                              where h.project_id = p_project_id and h.kind = 'unique' and h.key = k.uniqueness
                                and (h.expires_at is null or h.expires_at > v_now))
        ) w
        where (w.idempotency is null or w.nth_idempotency = 1) and (w.uniqueness is null or w.nth_unique = 1);
        continue when v_new is null;
        v_room := case when p_atomic and v_out <> '{}' then 0 else tidemill.take_room(v_queue.id, cardinality(v_new)) end;
        v_allowed := v_allowed || jsonb_build_object(v_queue.name, v_room);
        if v_room < cardinality(v_new) then
            v_out := v_out || v_new[v_room + 1:];
            v_texts := v_texts || (
                select jsonb_object_agg(p::text, format('queue %L is full: it may hold %s unfinished jobs and has room for %s of these %s; try again later',
                    v_queue.name, v_queue.most, v_room, cardinality(v_new)))
                from unnest(v_new[v_room + 1:]) as p);
        end if;
    end loop;

    if v_out = '{}' then
        v_pos := array(select p from generate_series(0, jsonb_array_length(p_jobs) - 1) as p order by p);
    elsif p_atomic then
        return query select o.pos, null::uuid, null::tidemill.job_status, false, 'queue_full', 'queue', v_texts ->> o.pos::text
        from unnest(v_out) as o (pos) order by 1;
        return;
    else
        loop  -- who has the key of one that stays out, or depends on it, stays out as well
            v_more := array(
                select k.pos from tidemill.given_keys(p_jobs) k
                where not (k.pos = any(v_out)) and (
                    exists (select 1 from tidemill.given_keys(p_jobs) o
                            where o.pos = any(v_out) and (o.idempotency = k.idempotency or o.uniqueness = k.uniqueness))
                    or exists (select 1 from jsonb_array_elements(case jsonb_typeof(p_jobs -> k.pos -> 'depends_on') when 'array'
                                                                  then p_jobs -> k.pos -> 'depends_on' else '[]' end) as d (parent)
                               where jsonb_typeof(d.parent) = 'object' and d.parent ->> 'ref' = any(array(
                                   select p_jobs -> i ->> 'ref' from unnest(v_out) as i)))));
            exit when v_more = '{}';
            v_out := v_out || v_more;
        end loop;
        v_pos := array(select p from generate_series(0, jsonb_array_length(p_jobs) - 1) as p where not (p = any(v_out)) order by p);
        p_jobs := (select coalesce(jsonb_agg(p_jobs -> p order by p), '[]') from unnest(v_pos) as p);
    end if;

    for v_row in
        select r.* from tidemill.enqueue_results(p_project_id, p_jobs, p_atomic, p_now) r order by r."index"
    loop
        if v_row.code is null and not v_row.deduplicated and v_allowed ? coalesce(p_jobs -> v_row."index" ->> 'queue', 'default') then
            v_room := (v_allowed ->> coalesce(p_jobs -> v_row."index" ->> 'queue', 'default'))::integer - 1;
            if v_room < 0 then  -- a job that was to answer has ended meanwhile
                raise exception 'a key came free while its queue was full' using errcode = 'serialization_failure';
            end if;
            v_allowed := v_allowed || jsonb_build_object(coalesce(p_jobs -> v_row."index" ->> 'queue', 'default'), v_room);
        end if;
        "index" := v_pos[v_row."index" + 1]; job_id := v_row.job_id; state := v_row.state; deduplicated := v_row.deduplicated;
        code := v_row.code; field := v_row.field; message := v_row.message;
        return next;
    end loop;
    return query select o.pos, null::uuid, null::tidemill.job_status, false, 'queue_full', 'queue',
        coalesce(v_texts ->> o.pos::text, 'a job that it depends on, or that has its key, finds no room in its queue')
    from unnest(v_out) as o (pos) order by 1;
end $$;

-- Raises a refusal as an error of the caller's transaction.
create function tidemill.refuse_job(p_index integer, p_field text, p_code text, p_message text) returns boolean
language plpgsql as $$
begin
    raise exception 'jobs[%].%: %', p_index, p_field, p_message
        using errcode = case p_code when 'idempotency_conflict' then 'TM409' when 'queue_full' then 'TM429' else 'TM422' end;
end $$;

-- For applications: the same job objects and rules as POST /v1/jobs/bulk with "atomic": true, inside the caller's transaction.
-- A fault raises SQLSTATE TM422 (TM409 for an idempotency key of another request, TM429 for a full queue) naming the job, the field and the bound.
create function tidemill.enqueue(project_id uuid, jobs jsonb)
returns table ("index" integer, job_id uuid, state tidemill.job_status, deduplicated boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_fault record;
    v_one jsonb;
    v_is_plain boolean := not exists (
        select 1 from jsonb_array_elements(case jsonb_typeof(jobs) when 'array' then jobs else '[]' end) as e (job)
        where case jsonb_typeof(e.job) when 'object' then e.job - tidemill.plain_fields() <> '{}' else true end);
begin
    if not v_is_plain and exists (
        select 1 from jsonb_array_elements(jobs) as e (job)
        where case jsonb_typeof(e.job) when 'object' then e.job - tidemill.job_fields() <> '{}' else true end)
    then
        select e.ord - 1 as pos, k.name into v_fault
        from jsonb_array_elements(jobs) with ordinality as e (job, ord)
        cross join lateral jsonb_object_keys(
            case jsonb_typeof(e.job) when 'object' then e.job - tidemill.job_fields() else '{"(not an object)": null}' end) as k (name)
        order by 1, 2 limit 1;
        raise exception 'jobs[%].%: no such field', v_fault.pos, left(v_fault.name, 100)
            using errcode = 'TM422', hint = 'fields: ' || array_to_string(tidemill.job_fields(), ', ');
    end if;
    -- What no CHECK and no cast would refuse, looked for in one pass; the text comes from job_faults. (A compressed value does not say how large it is.)
    if pg_column_size(jobs) > 262144 or pg_column_compression(jobs) is not null
       or jobs @? '$[*] ? (exists (@.headers) || exists (@.run_at) && exists (@.delay_ms) || @.delay_ms < 0 || @.delay_ms > 315360000000
            || @.job_type.type() != "string" || @.queue.type() != "string" || @.priority.type() == "string" || @.delay_ms.type() == "string"
            || @.schema_version.type() == "string" || @.max_attempts.type() == "string" || @.timeout_ms.type() == "string"
            || @.traceparent.type() != "string" || @.traceparent == "" || @.tracestate.type() != "string" || @.tracestate == "")'
       or (not v_is_plain and jobs @? '$[*] ? (exists (@.retry_policy) || exists (@.tags) || exists (@.unique) || exists (@.concurrency)
            || @.idempotency_key.type() != "string" || @.partition_key.type() != "string" || @.rate_class.type() != "string"
            || @.sticky_worker.type() != "string" || @.hold.type() != "boolean" || @.weight.type() == "string" || @.retention_ms.type() == "string"
            || @.ref.type() != "string" || @.batch_id.type() != "string" || @.on_parent_failure.type() != "string")')
    then
        for v_fault in select f.* from tidemill.job_faults(jobs) as f limit 1 loop
            raise exception 'jobs[%].%: %', v_fault.pos, v_fault.field, v_fault.message using errcode = 'TM422';
        end loop;
    end if;
    if jsonb_typeof(jobs) = 'array' and jsonb_array_length(jobs) = 1 then
        v_one := tidemill.admit_one(project_id, jobs -> 0, true)::jsonb;
        if v_one ->> 3 is not null then
            perform tidemill.refuse_job(0, v_one ->> 4, v_one ->> 3, v_one ->> 5);
        end if;
        "index" := 0; job_id := (v_one ->> 0)::uuid; state := (v_one ->> 1)::tidemill.job_status; deduplicated := (v_one -> 2)::boolean;
        return next;
        return;
    end if;
    return query
    select r."index", r.job_id, r.state, r.deduplicated
    from tidemill.admit_many(project_id, jobs, true, v_is_plain) r
    where case when r.code is null then true else tidemill.refuse_job(r."index", r.field, r.code, r.message) end;
exception
    when check_violation or not_null_violation or datatype_mismatch or data_exception then -- the last stands for its whole class, 22
    for v_fault in select f.* from tidemill.job_faults(jobs) as f limit 1 loop
        raise exception 'jobs[%].%: %', v_fault.pos, v_fault.field, v_fault.message using errcode = 'TM422';
    end loop;
    raise exception 'a job is outside what the queue stores: %', sqlerrm using errcode = 'TM422';
end $$;
