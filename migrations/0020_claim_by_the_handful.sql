-- A gated queue gives its jobs out in handfuls (docs/adr/0021): a claim that wants many takes several of each partition whose turn it is, writes a lane
-- once in a round, and learns of freed places in a row per queue instead of one per place; workers at one queue wait in line.

-- News of a fourth kind: places of these limits are free. (The second kind, one limit in a row, is read as long as any are left.)
alter table tidemill.lane_news add column limit_keys bigint[];
-- squawk-ignore ban-drop-constraint
alter table tidemill.lane_news drop constraint lane_news_one_kind; -- a wider one follows at once
alter table tidemill.lane_news add constraint lane_news_one_kind check (
    num_nonnulls(job_id, limit_key, limit_keys, lane) = 1 and (run_at is null) = (num_nonnulls(limit_key, limit_keys) = 1)
    and (lane is null) = (priority is null)) not valid;

-- The scheduler looks queue by queue now, by the index that claims need anyway.
-- squawk-ignore require-concurrent-index-deletion
drop index tidemill.queue_lanes_to_look; -- short: a table of waiting lanes

-- Places of these limits have come free: news for every queue that has lanes under them, two hundred limits in a row (more would be stored apart).
-- A null queue: only those. Returns how many limits. Locks: none.
create or replace function tidemill.free_places(p_queue_ids uuid[], p_limit_keys bigint[]) returns bigint
language sql volatile
begin atomic
    with places as materialized (
        select q.queue_id, q.limit_key from rows from (unnest(p_queue_ids), unnest(p_limit_keys)) as q (queue_id, limit_key)
        where q.queue_id is not null and q.limit_key is not null
        union
        select l.queue_id, l.limit_key from (select distinct u.key from unnest(p_limit_keys) as u (key)) k
        cross join lateral (select o.queue_id, o.limit_key from tidemill.queue_lanes o where o.limit_key = k.key limit 100) l
        union
        select l.queue_id, l.type_key
        from (select distinct u.key from unnest(p_limit_keys) as u (key)
              where exists (select 1 from tidemill.queue_lanes a where a.type_key is not null)) k
        cross join lateral (select o.queue_id, o.type_key from tidemill.queue_lanes o where o.type_key = k.key order by o.blocked_since limit 100) l
    ), news as (
        insert into tidemill.lane_news (queue_id, limit_keys)
        select n.queue_id, array_agg(n.limit_key)
        from (select p.queue_id, p.limit_key, row_number() over (partition by p.queue_id) / 200 as part from places p) n
        group by n.queue_id, n.part
        returning cardinality(limit_keys) as n)
    select coalesce(sum(n.n), 0)::bigint from news n;
end;

-- Whether this transaction has the queue to itself, as claims do: at once, or after at most p_wait_ms, in the order in which they came. What claims read
-- afterwards is younger than what the last one left, because each of their statements takes a snapshot of its own.
create function tidemill.await_turn(p_queue_id uuid, p_wait_ms integer) returns boolean
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
begin
    if pg_try_advisory_xact_lock(tidemill.queue_lock(p_queue_id)) then
        return true;
    end if;
    if p_wait_ms <= 0 then
        return false;
    end if;
    perform set_config('lock_timeout', p_wait_ms || 'ms', true);
    begin
        perform pg_advisory_xact_lock(tidemill.queue_lock(p_queue_id));
    exception when lock_not_available then
        perform set_config('lock_timeout', v_before, true);
        return false;
    end;
    perform set_config('lock_timeout', v_before, true);
    return true;
end $$;

-- What the news of a queue say is written to its lanes; what has come due or is due for another look is ready. Returns the partitions of lanes that are
-- ready now, and the limits that have places again, whose lanes are the caller's to look at. At most 2,000 rows of news with 2,000 limits, and 500 looks.
-- Only for claims, under the queue's lock. Locks: news (skip locked), lanes.
create function tidemill.hear_news(p_queue_id uuid, p_limit integer, p_now timestamptz, out woken text[], out freed bigint[])
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
    v_has_types boolean;
    v_jobs uuid[];           -- one job of a lane each, and when the lane has something
    v_times timestamptz[];
    v_lanes bigint[];
    v_levels smallint[];
begin
    woken := '{}';
    -- lanes that got entries or lost what stood in front, limits that have places again: what is committed by now
    with read as materialized (
        delete from tidemill.lane_news n
        where n.id = any(array(
            select h.id
            from (select m.id, sum(coalesce(cardinality(m.limit_keys), 0)) over (order by m.id) as upto
                  from (select i.id, i.limit_keys from tidemill.lane_news i where i.queue_id = p_queue_id
                        order by i.id limit 2000 for update skip locked) m) h
            where h.upto <= 2000))
        returning n.job_id, n.run_at, n.limit_key, n.limit_keys, n.lane, n.priority
    )
    select array_agg(r.job_id) filter (where r.job_id is not null), array_agg(r.run_at) filter (where r.job_id is not null),
           (select array_agg(distinct u.key) from read o cross join lateral unnest(coalesce(o.limit_keys, array[o.limit_key])) as u (key)
            where num_nonnulls(o.limit_key, o.limit_keys) = 1),
           array_agg(r.lane) filter (where r.lane is not null), array_agg(r.priority) filter (where r.lane is not null)
    into v_jobs, v_times, freed, v_lanes, v_levels from read r;
    -- Who told of a lane told it of one job. Where that one has been deleted or moved before anybody heard, what it left behind stands in for it
    -- (whoever takes an entry away says so), or the lane would be unknown, or known from a later job on.
    if v_lanes is not null then
        select v_jobs || array_agg(e.job_id), v_times || array_agg(e.run_at) into v_jobs, v_times
        from (select distinct u.lane, u.priority from unnest(v_lanes, v_levels) as u (lane, priority)) n
        cross join lateral (
            select i.job_id, i.run_at from tidemill.job_queue_entries i
            where i.queue_id = p_queue_id and i.lane = n.lane and i.priority = n.priority
            order by i.run_at, i.job_id limit 1) e;
    end if;
    if v_jobs is not null then
        with changed as (
            insert into tidemill.queue_lanes as l (
                queue_id, lane, priority, partition_key, job_type, limit_key, concurrency_limit, rate_class, sticky_worker, due_at, is_ready, look_at)
            select distinct on (j.lane, j.priority) p_queue_id, j.lane, j.priority, coalesce(j.partition_key, ''), j.job_type,
                   case when j.concurrency_limit is not null then tidemill.limit_key(j.project_id, j.job_type, j.concurrency_key) end,
                   j.concurrency_limit, j.rate_class, j.sticky_worker, n.run_at, n.run_at <= p_now, n.run_at
            from rows from (unnest(v_jobs), unnest(v_times)) as n (job_id, run_at)
            cross join lateral (select i.* from tidemill.jobs i where i.id = n.job_id and i.queue_id = p_queue_id and i.lane > 0 limit 1) j
            -- what would change nothing is left out here: a conflict that does nothing locks, and writes, the row all the same
            where (select o.due_at <= n.run_at and o.blocked_by is distinct from 'rate_class' from tidemill.queue_lanes o
                   where o.queue_id = p_queue_id and o.lane = j.lane and o.priority = j.priority limit 1) is not true
            order by j.lane, j.priority, n.run_at
            on conflict (queue_id, lane, priority) do update
            set due_at = least(l.due_at, excluded.due_at),
                is_ready = l.blocked_by is distinct from 'concurrency_key' and (l.is_ready or excluded.is_ready or l.due_at <= p_now),
                look_at = case when l.blocked_by is distinct from 'concurrency_key' then least(l.look_at, excluded.look_at) else l.look_at end,
                blocked_by = nullif(l.blocked_by, 'rate_class'),
                blocked_since = case when l.blocked_by is distinct from 'rate_class' then l.blocked_since end
            -- what blocked a lane at its rate may have been the dear job in front: news are worth another look
            where l.due_at > excluded.due_at or l.blocked_by = 'rate_class'
            returning l.partition_key, l.is_ready
        )
        select coalesce(array_agg(distinct c.partition_key), '{}') into woken from changed c where c.is_ready;
    end if;

    -- what has come due, is due for another look, or waits for a standing limit that has places again
    v_has_types := freed is not null and exists (select 1 from tidemill.queue_lanes o where o.type_key is not null);
    with changed as (
        update tidemill.queue_lanes l
        set is_ready = l.due_at <= p_now, look_at = l.due_at, blocked_by = null, blocked_since = null
        where l.ctid = any(array(  -- by place: nobody else moves them under the queue's lock
            (select w.ctid from tidemill.queue_lanes w
             where w.queue_id = p_queue_id and not w.is_ready and w.look_at <= p_now
             order by w.look_at limit 500)
            union all
            -- a type's lanes wait in line: those that were woken in vain go to its end
            (select w.ctid from unnest(case when v_has_types then freed end) as k (key)
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
    )
    select woken || coalesce(array_agg(distinct c.partition_key), '{}') into woken from changed c where c.is_ready;
end $$;

-- Claims from one gated queue: at most p_limit due jobs, with every gate of API.md §4 in the order that explain reports them. Serialised per queue by
-- a transaction-scoped lock that is tried here (await_turn waits for it); each limit that reaches over queues is counted under a lock of its own, in a statement that
-- begins after the lock is held. Takes partitions by smallest virtual finish time (weighted fair queueing, Demers et al. 1989; start of an idle one = the
-- queue's clock), within a partition the highest priority, then the earliest due lane. Returns the leases; one row of nulls if another claim is at this queue.
-- A standing limit of a job type counts leases by type_key, under that key's lock; what of such a type still stands in lane 0 is moved to its lane first.
create or replace function tidemill.claim_gated(
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
    v_is_all boolean;        -- the round has found as much as it wanted
    v_bare tid[];            -- lanes of this round that have no entries left
    v_shut text[];           -- types and rate classes that let nobody in at all, found in this round
    v_dry text[];
    v_dry_again timestamptz; -- when the last of them has a token again, and in which time it earns one
    v_token_secs double precision;
    v_places tid[];
    v_away bigint[];         -- limits that another claim counts at the moment
    v_dues timestamptz[];    -- of the others, sorted by place: when their next job is due, and whether the round has filled their limit
    v_fulls boolean[];
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
    v_handful integer;       -- how many jobs a turn may bring, and how many turns the round has
    v_turns integer;
    v_lanes bigint[];
    v_levels smallint[];
    v_stands tid[];          -- where the lane's row is
    v_since timestamptz[];   -- a lane's jobs are due from here on; in front of it lies only what has been claimed. (What news bring moves it.)
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
    v_woken text[];
    v_freed bigint[];        -- limits that have places again, and their lanes until the first round has chosen: sorted by partition, then as they are served
    v_free_places tid[];
    v_free_parts text[];     -- each partition of these once, in order, and where its lanes begin (and, at the end, where the next one's would)
    v_free_from integer[];
    v_free_lanes bigint[];
    v_free_levels smallint[];
    v_free_dues timestamptz[];
    v_free_keys bigint[];
    v_free_limits integer[];
    v_seed bytea := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());  -- one draw for all tokens, which are hashes of it and the job
begin
    if p_limit < 1 or not pg_try_advisory_xact_lock(tidemill.queue_lock(p_queue_id)) then
        return next;  -- another claim is at this queue, or (a limit of 0) was until now
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

    -- what the news say, and what has come due
    select h.woken, h.freed into v_woken, v_freed from tidemill.hear_news(p_queue_id, p_limit, v_now) h;
    -- lanes whose limit has places again are offered in the first round as they stand, and written once, after it; those with more gates as any other lane
    if v_freed is not null then
        with freed as materialized (
            select o.*
            from unnest(v_freed) as k (key)
            cross join lateral (
                select r.ctid as place, r.partition_key, r.lane, r.priority, r.due_at, r.limit_key, r.concurrency_limit, r.due_at <= v_now as is_due,
                       r.rate_class is null and r.sticky_worker is null and p_job_types is null and not (r.job_type = any(v_types)) and not v_is_full as is_plain
                from tidemill.queue_lanes r
                where r.limit_key = k.key and r.queue_id = p_queue_id and r.blocked_by = 'concurrency_key' limit 100) o
        ), offers as materialized (
            select f.*, row_number() over (order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane)::integer as pos
            from freed f where f.is_due and f.is_plain
        ), names as materialized (
            select o.partition_key, min(o.pos) as first from offers o group by o.partition_key
        )
        select (select array_agg(f.place) from freed f where not (f.is_due and f.is_plain)),
               v_woken || coalesce((select array_agg(distinct f.partition_key) from freed f where f.is_due), '{}'),
               (select array_agg(n.partition_key order by n.first) from names n), (select array_agg(n.first order by n.first) || (select count(*)::integer + 1 from offers) from names n),
               o.places, o.lanes, o.levels, o.dues, o.keys, o.limits
        into v_places, v_woken, v_free_parts, v_free_from, v_free_places, v_free_lanes, v_free_levels, v_free_dues, v_free_keys, v_free_limits
        from (select array_agg(o.place order by o.pos) as places, array_agg(o.lane order by o.pos) as lanes, array_agg(o.priority order by o.pos) as levels,
                     array_agg(o.due_at order by o.pos) as dues, array_agg(o.limit_key order by o.pos) as keys,
                     array_agg(o.concurrency_limit order by o.pos) as limits
              from offers o) o;
        update tidemill.queue_lanes l
        set is_ready = l.due_at <= v_now, look_at = l.due_at, blocked_by = null, blocked_since = null
        where l.ctid = any(v_places);
    end if;
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

        -- whose turn it is, and how many each may take before the others' turns come. A claim that wants many gives each turn a handful, so that it need
        -- not touch as many lanes as it takes jobs: at most 8, and never more than a 64th of what it wants
        v_handful := greatest(1, least(8, v_room / 64));
        v_turns := ceil(v_room::numeric / v_handful)::integer;
        with parts as materialized (
            select p.partition_key, p.virtual_finish, p.weight
            from tidemill.queue_partitions p
            where p.queue_id = p_queue_id and p.is_ready
            order by p.virtual_finish, p.partition_key
            limit least(v_turns, 500)
        ), level as materialized (
            -- up to which virtual time the turns reach, as water finds its level: of a heavy partition that may be all of them
            select min((v_turns::double precision * v_handful + f.debt) / f.weights) + f.base as reached
            from (select p.base, sum(p.weight::double precision) over sofar as weights, sum(p.weight * (p.virtual_finish - p.base)) over sofar as debt
                  from (select i.*, min(i.virtual_finish) over () as base from parts i) p
                  window sofar as (order by p.virtual_finish, p.partition_key rows unbounded preceding)) f
            group by f.base
        ), slots as (
            select h.partition_key, h.turn, least(h.n, v_room - h.ahead)::integer as n
            from (select s.partition_key, count(*) * v_handful as n, min(s.finish) as turn,
                         coalesce(sum(count(*) * v_handful) over (
                             order by min(s.finish), s.partition_key rows between unbounded preceding and 1 preceding), 0) as ahead
                  from (select p.partition_key, p.virtual_finish + (j * v_handful)::double precision / p.weight as finish
                        from parts p
                        cross join level t
                        cross join generate_series(0, least(v_turns - 1, floor((t.reached - p.virtual_finish) * p.weight / v_handful))::integer) as j
                        order by finish, p.partition_key limit v_turns) s
                  group by s.partition_key) h
            where h.ahead < v_room
        ), offered as (
            -- each partition's best lanes, as many as it may take jobs; a lane of many gives as many as evens out
            select c.*, least(c.per_lane, c.most - (c.nth - 1) * c.per_lane) as n
            from (
                select s.partition_key, s.turn, s.n as most, o.lane, o.priority, o.due_at, o.limit_key, o.concurrency_limit, o.special, o.place,
                       row_number() over (partition by s.partition_key order by o.priority desc, o.due_at, o.lane)::integer as nth,
                       ceil(s.n::numeric / count(*) over (partition by s.partition_key))::integer as per_lane
                from slots s
                cross join lateral (
                    select a.* from (
                        (select l.lane, l.priority, l.due_at, l.limit_key, l.concurrency_limit,
                                l.rate_class is not null or l.job_type = any(v_types) as special, l.ctid as place
                         from tidemill.queue_lanes l
                         where l.queue_id = p_queue_id and l.partition_key = s.partition_key and l.is_ready
                           and (p_job_types is null or l.job_type = any(p_job_types))
                           and (l.sticky_worker is null or not (l.sticky_worker = any(v_others)))
                         order by l.priority desc, l.due_at, l.lane limit s.n)
                        union all
                        (select v_free_lanes[x], v_free_levels[x], v_free_dues[x], v_free_keys[x], v_free_limits[x], false, v_free_places[x]
                         from (select width_bucket(s.partition_key collate "C", v_free_parts) as pos offset 0) b
                         cross join lateral generate_series(v_free_from[b.pos], least(v_free_from[b.pos] + s.n, v_free_from[b.pos + 1]) - 1) as x
                         where v_free_parts[b.pos] = s.partition_key)
                        union all
                        (select 0::bigint, v.priority, h.run_at, null, null, false, null
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
               array_agg(c.due_at order by c.turn, c.partition_key, c.nth), array_agg(c.place order by c.turn, c.partition_key, c.nth),
               array_agg(c.partition_key order by c.turn, c.partition_key, c.nth), array_agg(c.n order by c.turn, c.partition_key, c.nth),
               array_agg(c.limit_key order by c.turn, c.partition_key, c.nth), array_agg(c.concurrency_limit order by c.turn, c.partition_key, c.nth),
               bool_or(c.special), bool_or(c.limit_key is not null), min(c.turn)
        into v_lanes, v_levels, v_since, v_stands, v_parts, v_wants, v_keys, v_limits, v_special, v_limited, v_turn
        from chosen c where c.limit_key is null or c.of_limit = 1;
        v_clock := coalesce(v_turn, v_clock);
        if v_free_places is not null then  -- what was offered and not chosen is ready like any other
            update tidemill.queue_lanes l
            set is_ready = true, look_at = l.due_at, blocked_by = null, blocked_since = null
            where l.ctid = any(array(select unnest(v_free_places) except select unnest(v_stands)));
            v_free_places := null;
            v_free_parts := null;
        end if;

        -- partitions whose turn it is but which have nothing to give leave the circle until something readies them again
        update tidemill.queue_partitions p set is_ready = false
        where p.ctid = any(array(
            select i.ctid from (
                select o.ctid, o.partition_key from tidemill.queue_partitions o
                where o.queue_id = p_queue_id and o.is_ready
                order by o.virtual_finish, o.partition_key limit least(v_turns, 500)) i
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
            where l.ctid = any(array(select v_stands[i] from generate_subscripts(v_lanes, 1) as i where v_keys[i] is not null and v_wants[i] = 0));
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
                select o.rate_class, o.job_type from tidemill.queue_lanes o where o.ctid = v_stands[i] limit 1) l
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
                                      where c.queue_id = p_queue_id and c.lane = v_lanes[v_row.i] and c.priority = v_levels[v_row.i]
                                        and c.run_at >= v_since[v_row.i] and c.run_at <= v_now
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
                select i, v_lanes[i] as lane, v_levels[i] as priority, v_parts[i] as partition_key, v_since[i] as since, v_wants[i] as n
                from generate_subscripts(v_lanes, 1) as i where v_wants[i] > 0
            ), positions as materialized (
                select array_agg(w.lane order by w.lane, w.i) as lanes, array_agg(w.i order by w.lane, w.i) as of from want w
            ), taken as (
                delete from tidemill.job_queue_entries e
                where e.ctid = any(array(
                    select d.ctid from want w
                    cross join lateral (
                        select c.ctid from tidemill.job_queue_entries c
                        where c.queue_id = p_queue_id and c.lane = w.lane and c.priority = w.priority and c.run_at >= w.since and c.run_at <= v_now
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
                       v_keys[l.i], case when t.lane <> 0 then v_parts[l.i] end, (
                           select tidemill.type_key(v_queue.project_id, o.job_type) from tidemill.queue_lanes o
                           where cardinality(v_types) > 0 and o.ctid = v_stands[l.i] and o.job_type = any(v_types))
                from taken t
                cross join (select coalesce(p_lease_ms, v_queue.visibility_timeout_secs * 1000::bigint) as ms) m
                -- which of the lanes it is: the same lane at another priority has the same gates
                cross join lateral (select p.of[width_bucket(t.lane, p.lanes)] as i from positions p) l
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
            select l.* from leased l order by l.priority desc, l.run_at, l.job_id
        loop
            v_taken := v_taken + 1;
            job_id := v_row.job_id; lease_token := v_row.lease_token; attempt := v_row.attempt; fence := v_row.fence;
            priority := v_row.priority; run_at := v_row.run_at; lease_expires_at := v_row.lease_expires_at;
            return next;
        end loop;
        v_room := v_room - v_taken;

        -- What the lanes look like after that (an entry that is committed later brings its own news). Those that the round has filled to their limit
        -- wait for one of these leases to end. Looked up key by key and changed by place, because a join may read all lanes for each of them.
        v_is_all := v_taken = (select sum(w.n) from unnest(v_wants) as w (n));
        select array_agg(x.place) filter (where x.due_at is null),
               array_agg(x.place order by x.place) filter (where x.due_at is not null),
               array_agg(x.due_at order by x.place) filter (where x.due_at is not null),
               array_agg(x.is_full order by x.place) filter (where x.due_at is not null)
        into v_bare, v_places, v_dues, v_fulls
        from (select v_stands[i] as place,
                     (select e.run_at from tidemill.job_queue_entries e
                      where e.queue_id = p_queue_id and e.lane = v_lanes[i] and e.priority = v_levels[i] and e.run_at >= v_since[i]
                      order by e.run_at limit 1) as due_at,
                     v_is_all and v_limited and v_keys[i] is not null and v_lefts[i] = v_wants[i] as is_full
              from generate_subscripts(v_lanes, 1) as i
              where v_wants[i] > 0 and v_lanes[i] <> 0
              offset 0) x;  -- offset 0: what is looked up is looked up once
        update tidemill.queue_lanes l
        set (due_at, is_ready, look_at, blocked_by, blocked_since) = (
            select h.run_at, h.run_at <= v_now and not h.is_full,
                   case when h.is_full then greatest(h.run_at, v_now + interval '5 seconds' * (0.8 + 0.4 * random())) else h.run_at end,
                   case when h.is_full then 'concurrency_key' end, case when h.is_full then v_now end
            from (select v_dues[width_bucket(l.ctid, v_places)] as run_at, v_fulls[width_bucket(l.ctid, v_places)] as is_full offset 0) h)
        where l.ctid = any(v_places);
        delete from tidemill.queue_lanes l where l.ctid = any(v_bare);
        if v_bare is not null then  -- partitions that have lost their last lane leave the circle now: there may be no next claim at this queue
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
