-- The gated claim in terms of 0028: it follows hints, and writes fewer index entries for each lease (docs/adr/0023).

-- Claims from one gated queue: at most p_limit due jobs, with every gate of API.md §4 in the order that explain reports them. Serialised per queue by
-- a transaction-scoped lock that is tried here (await_turn waits for it); each limit that reaches over queues is counted under a lock of its own, in a statement that
-- begins after the lock is held. Takes partitions by smallest virtual finish time (weighted fair queueing, Demers et al. 1989; start of an idle one = the
-- queue's clock), within a partition the highest priority, then the earliest due lane. Returns the leases; one row of nulls if another claim is at this queue.
-- (offer_freed of five arguments, like hear_news, is for claims that are under way while this is applied; it goes in a later release.)
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
    v_is_full boolean := false;
    v_is_all boolean;        -- the round has found as much as it wanted
    v_bare tid[];            -- lanes that have no entries left
    v_away bigint[];         -- limits that another claim counts at the moment
    v_swept integer := 0;
    v_room integer := p_limit;
    v_max integer;
    v_rule tidemill.saturation_rule;
    v_counted smallint := 0;  -- trait 128 (what counts for a queue's limit) where there is one; who sets the first marks what runs by then
    v_lease_ms bigint;
    v_expires_at timestamptz;
    v_clock double precision;
    v_empty smallint[] := '{}';
    v_row record;
    v_count integer;
    v_taken integer;
    v_handful integer;       -- how many jobs a turn may bring, and how many turns the round has
    v_turns integer;
    v_lanes bigint[];
    v_levels smallint[];
    v_stands tid[];          -- where the lane's row is
    v_spots tid[];           -- of a lane whose limit has places again: where its next job is, and whether it may stay as it is if the round fills it again
    v_naps boolean[];
    v_since timestamptz[];   -- a lane's jobs are due from here on; in front of it lies only what has been claimed. (What news bring moves it.)
    v_parts text[];
    v_wants integer[];
    v_keys bigint[];
    v_limits integer[];
    v_locked boolean[];
    v_held_keys bigint[];    -- the limits of the round under which something runs, sorted, and how much
    v_held integer[];
    v_lefts integer[];       -- places left of each lane's limit
    v_special boolean;
    v_limited boolean;
    v_turn double precision;
    v_is_chosen boolean;     -- whether all that may go are lanes of freed limits of 1
    v_others text[] := '{}';
    v_vain integer := 0;     -- rounds that brought nothing
    v_busy integer := 0;     -- rounds in which all limits were full
    v_is_choosy boolean;     -- whether there may be ready lanes that are not for this worker
    v_woken text[];
    v_freed bigint[];        -- limits that have places again, hints of lanes under them, and these lanes as long as no round has chosen them (tidemill.offer_freed)
    v_hint_places tid[];
    v_hint_spots tid[];
    v_hint_dues timestamptz[];
    v_hint_keys bigint[];
    v_told_lanes bigint[];   -- lanes that got a job which may be due before what a hint says
    v_told_levels smallint[];
    v_told_dues timestamptz[];
    v_free_places tid[];
    v_free_parts text[];
    v_free_lanes bigint[];
    v_free_levels smallint[];
    v_free_dues timestamptz[];
    v_free_keys bigint[];
    v_free_limits integer[];
    v_free_spots tid[];
    v_free_naps boolean[];
    v_order integer[];       -- these by partition and then as they are served; each partition once, in order, and where its lanes begin (and where the next would)
    v_names text[];
    v_from integer[];
    v_emptied text[];        -- partitions that may leave the circle if their last lane goes
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
        v_counted := 128;
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
    select h.woken, h.freed, h.places, h.spots, h.dues, h.place_keys, h.told_lanes, h.told_levels, h.told_dues
    into v_woken, v_freed, v_hint_places, v_hint_spots, v_hint_dues, v_hint_keys, v_told_lanes, v_told_levels, v_told_dues
    from tidemill.read_news(p_queue_id, p_limit, v_now) h;
    -- lanes whose limit has places again are offered in the first round as they stand
    if v_freed is not null or v_hint_places is not null then
        select v_woken || f.woken, f.parts, f.places, f.lanes, f.levels, f.dues, f.keys, f.limits, f.spots, f.naps
        into v_woken, v_free_parts, v_free_places, v_free_lanes, v_free_levels, v_free_dues, v_free_keys, v_free_limits, v_free_spots, v_free_naps
        from tidemill.offer_freed(p_queue_id, v_freed, v_hint_places, v_hint_spots, v_hint_dues, v_hint_keys, v_told_lanes, v_told_levels, v_told_dues,
                                  p_job_types is null and not v_is_full, v_types, v_now) f;
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

    v_lease_ms := coalesce(p_lease_ms, v_queue.visibility_timeout_secs * 1000::bigint);
    v_expires_at := v_now + make_interval(secs => v_lease_ms / 1000.0);
    v_is_choosy := p_job_types is not null or v_others <> '{}';

    for v_round in 1..50 loop
        exit when v_room <= 0 or not exists (select 1 from tidemill.queue_partitions p where p.queue_id = p_queue_id and p.is_ready);

        -- whose turn it is, and how many each may take before the others' turns come. A claim that wants many gives each turn a handful, so that it need
        -- not touch as many lanes as it takes jobs: at most 8, and never more than a 64th of what it wants
        v_handful := greatest(1, least(8, v_room / 64));
        v_turns := ceil(v_room::numeric / v_handful)::integer;
        v_is_chosen := false;
        v_names := '{}';
        if v_free_places is not null then
            select h.is_chosen, h.lanes, h.levels, h.dues, h.places, h.spots, h.naps, h.parts, h.wants, h.keys, h.limits, h.turn
            into v_is_chosen, v_lanes, v_levels, v_since, v_stands, v_spots, v_naps, v_parts, v_wants, v_keys, v_limits, v_turn
            from tidemill.choose_freed(p_queue_id, v_room, v_now, v_free_parts, v_free_places, v_free_lanes, v_free_levels, v_free_dues,
                                       v_free_keys, v_free_limits, v_free_spots, v_free_naps) h;
            if not v_is_chosen then
                select s.names, s.firsts, s.places into v_names, v_from, v_order
                from tidemill.sort_freed(v_free_parts, v_free_lanes, v_free_levels, v_free_dues) s;
            end if;
        end if;
        if v_is_chosen then
            v_special := false;
            v_limited := true;
        else
            with parts as materialized (
                select p.partition_key, p.virtual_finish, p.weight
                from (select o.partition_key, o.virtual_finish, o.weight from tidemill.queue_partitions o
                      where o.queue_id = p_queue_id and o.is_ready
                      order by o.virtual_finish, o.partition_key limit case when v_is_choosy then 5000 else least(v_turns, 500) end) p
                -- partitions whose lanes are all for others take no turn from this worker, or they would stand in front of it as long as the others stay away
                where not v_is_choosy or p.partition_key = '' or p.partition_key = any(v_names)
                   or (select l.lane from tidemill.queue_lanes l
                       where l.queue_id = p_queue_id and l.partition_key = p.partition_key and l.is_ready
                         and (p_job_types is null or l.job_type = any(p_job_types)) and (l.sticky_worker is null or not (l.sticky_worker = any(v_others)))
                       order by l.priority desc, l.due_at, l.lane limit 1) is not null
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
                -- Each partition's best lanes: those of the highest priority as many jobs as it may take, in even parts, but none more than its limit; those of
                -- the next what limits surely keep the former from giving. (If the former have less, the next round is the others'.)
                select c.*, least(c.per_lane, c.most - coalesce(sum(c.per_lane) over (
                    partition by c.turn, c.partition_key, c.below order by c.nth rows between unbounded preceding and 1 preceding), 0))::integer as n
                from (
                    select b.*, least(((b.most + b.of_level - 1) / b.of_level)::integer, b.concurrency_limit) as per_lane
                    from (
                        select s.partition_key, s.turn, -o.priority::integer as below, o.lane, o.priority, o.due_at, o.limit_key, o.concurrency_limit,
                               o.special, o.place, o.spot, o.may_nap,
                               row_number() over (order by s.turn, s.partition_key, -o.priority::integer, o.due_at, o.lane) as pos,
                               row_number() over (partition by s.turn, s.partition_key, -o.priority::integer order by o.due_at, o.lane)::integer as nth,
                               count(*) over (partition by s.turn, s.partition_key, -o.priority::integer) as of_level,
                               greatest(0, s.n - coalesce(sum(least(o.concurrency_limit, s.n)) over (
                                   partition by s.turn, s.partition_key order by -o.priority::integer groups between unbounded preceding and 1 preceding), 0))::integer as most
                        from slots s
                        cross join lateral (
                            select a.* from (
                                (select l.lane, l.priority, l.due_at, l.limit_key, l.concurrency_limit,
                                        l.rate_class is not null or l.job_type = any(v_types) as special, l.ctid as place, null::tid as spot, null::boolean as may_nap
                                 from tidemill.queue_lanes l
                                 where l.queue_id = p_queue_id and l.partition_key = s.partition_key and l.is_ready
                                   and (p_job_types is null or l.job_type = any(p_job_types))
                                   and (l.sticky_worker is null or not (l.sticky_worker = any(v_others)))
                                 order by l.priority desc, l.due_at, l.lane limit s.n)
                                union all
                                (select v_free_lanes[x.i], v_free_levels[x.i], v_free_dues[x.i], v_free_keys[x.i], v_free_limits[x.i], false, v_free_places[x.i],
                                        v_free_spots[x.i], v_free_naps[x.i]
                                 from (select width_bucket(s.partition_key collate "C", v_names) as pos offset 0) b
                                 cross join lateral (
                                     select v_order[n] as i from generate_series(v_from[b.pos], least(v_from[b.pos] + s.n, v_from[b.pos + 1]) - 1) as n offset 0) x
                                 where v_names[b.pos] = s.partition_key)
                                union all
                                (select 0::bigint, v.priority, h.run_at, null, null, false, null, null, null
                                 from tidemill.queue_levels v
                                 cross join lateral (
                                     select e.run_at from tidemill.job_queue_entries e
                                     where e.queue_id = p_queue_id and e.lane = 0 and e.priority = v.priority and e.run_at <= v_now
                                     order by e.run_at limit 1) h
                                 where s.partition_key = '' and v.queue_id = p_queue_id and not (v.priority = any(v_empty))
                                 order by v.priority desc limit 1)) a
                            order by a.priority desc, a.due_at, a.lane limit s.n) o
                    ) b
                ) c
            ), chosen as (
                select f.*, row_number() over (partition by f.limit_key order by f.pos) as of_limit from offered f where f.n > 0
            )
            select array_agg(c.lane order by c.pos), array_agg(c.priority order by c.pos),
                   array_agg(c.due_at order by c.pos), array_agg(c.place order by c.pos),
                   array_agg(c.spot order by c.pos), array_agg(c.may_nap order by c.pos),
                   array_agg(c.partition_key order by c.pos), array_agg(c.n order by c.pos),
                   array_agg(c.limit_key order by c.pos), array_agg(c.concurrency_limit order by c.pos),
                   bool_or(c.special), bool_or(c.limit_key is not null), min(c.turn)
            into v_lanes, v_levels, v_since, v_stands, v_spots, v_naps, v_parts, v_wants, v_keys, v_limits, v_special, v_limited, v_turn
            from chosen c where c.limit_key is null or c.of_limit = 1;
        end if;
        if v_is_chosen and cardinality(v_stands) = cardinality(v_free_places) then
            v_free_places := null;
        elsif v_free_places is not null then
            select array_agg(f.place), array_agg(f.part), array_agg(f.lane), array_agg(f.level), array_agg(f.due_at), array_agg(f.key), array_agg(f.n),
                   array_agg(f.spot), array_agg(f.nap)
            into v_free_places, v_free_parts, v_free_lanes, v_free_levels, v_free_dues, v_free_keys, v_free_limits, v_free_spots, v_free_naps
            from unnest(v_free_places, v_free_parts, v_free_lanes, v_free_levels, v_free_dues, v_free_keys, v_free_limits, v_free_spots, v_free_naps)
                as f (place, part, lane, level, due_at, key, n, spot, nap)
            where f.place <> all ((select coalesce(array_remove(v_stands, null), '{}'))::tid[]);
        end if;
        v_names := case when v_free_places is not null then v_free_parts else '{}' end;

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
                       then not (i.partition_key = any(coalesce(v_parts, '{}')) or i.partition_key = any(v_names)) else false end));
        exit when v_lanes is null and not found;
        continue when v_lanes is null;

        -- limits over all queues: lock first, count in the next statement, whose snapshot is younger than the lock
        if v_limited then
            v_locked := array(select v_keys[i] is null or pg_try_advisory_xact_lock(v_keys[i]) from generate_subscripts(v_lanes, 1) as i order by i);
            select array_agg(c.key order by c.key), array_agg(c.n order by c.key) into v_held_keys, v_held
            from (select l.limit_key as key, count(*)::integer as n from tidemill.job_leases l where l.limit_key = any(v_keys) group by l.limit_key) c;
            v_lefts := array(
                select case when v_locked[i] then greatest(0, v_limits[i] - coalesce(case when v_held_keys[h.pos] = v_keys[i] then v_held[h.pos] end, 0)) else 0 end
                from generate_subscripts(v_lanes, 1) as i
                cross join lateral (select width_bucket(v_keys[i], v_held_keys) as pos offset 0) h
                order by i);
            v_wants := array(
                select case when v_keys[i] is null then v_wants[i] else least(v_wants[i], v_lefts[i]) end
                from generate_subscripts(v_lanes, 1) as i order by i);
            v_away := array(select v_keys[i] from generate_subscripts(v_lanes, 1) as i where not v_locked[i]);
            -- a lane that was left as it was may have lost its last job since: it goes, or every look at it for as long as its limit is full would write it
            v_bare := array(
                select v_stands[i] from generate_subscripts(v_lanes, 1) as i
                where v_keys[i] is not null and v_wants[i] = 0 and v_spots[i] is null and (
                    select e.run_at from tidemill.job_queue_entries e
                    where e.queue_id = p_queue_id and e.lane = v_lanes[i] and e.priority = v_levels[i] and e.run_at >= v_since[i]
                    order by e.run_at limit 1) is null);
            delete from tidemill.queue_lanes l where l.ctid = any(v_bare);
            update tidemill.queue_lanes l
            set is_ready = false, blocked_by = 'concurrency_key', blocked_since = coalesce(l.blocked_since, v_now),
                look_at = v_now + case when l.limit_key = any(v_away) then interval '5 milliseconds' else interval '5 seconds' * (0.8 + 0.4 * random()) end
            where l.ctid = any(array(select v_stands[i] from generate_subscripts(v_lanes, 1) as i where v_keys[i] is not null and v_wants[i] = 0));
            -- who wants one job meets one lane a round: where nothing may go twice, many may stand in front
            if not exists (select 1 from unnest(v_wants) as w (n) where w.n > 0) then
                v_busy := v_busy + 1;
                if v_busy between 2 and 6 then
                    perform tidemill.pass_busy(p_queue_id, v_names, v_now);
                end if;
            end if;
        end if;

        -- standing limits of a job type and rate classes; the sweeps of a claim set 5,000 lanes aside at most: the next one goes on
        if v_special then
            select s.wants, v_swept + s.is_swept::integer into v_wants, v_swept
            from tidemill.pass_special(v_queue.project_id, p_queue_id, v_types, v_most, v_rules, v_lanes, v_levels, v_stands, v_since,
                                       v_parts || v_names, v_swept < 5, v_now, v_wants) s;
        end if;

        -- take
        return query
            with want as materialized (
                select i, v_lanes[i] as lane, v_levels[i] as priority, v_parts[i] as partition_key, v_since[i] as since, v_wants[i] as n,
                       case when v_wants[i] = 1 then v_spots[i] end as spot,
                       -- in lane 0, jobs that a limit has come upon and that are not in their lanes yet may stand in front: a claim passes 2,000
                       coalesce(case when v_lanes[i] = 0 and v_types <> '{}' and p_job_types is null then (
                           select e.run_at from tidemill.job_queue_entries e
                           where e.queue_id = p_queue_id and e.lane = 0 and e.priority = v_levels[i] and e.run_at <= v_now
                           order by e.run_at, e.job_id offset 2000 limit 1) end, v_now) as upto
                from generate_subscripts(v_lanes, 1) as i where v_wants[i] > 0
            ), positions as materialized (
                select array_agg(w.lane order by w.lane, w.i) as lanes, array_agg(w.i order by w.lane, w.i) as of from want w
            ), taken as (
                delete from tidemill.job_queue_entries e
                where e.ctid = any(array(
                    select d.ctid from want w
                    cross join lateral (
                        select c.ctid from tidemill.job_queue_entries c
                        where c.queue_id = p_queue_id and c.lane = w.lane and c.priority = w.priority and c.run_at >= w.since and c.run_at <= w.upto
                          and (w.lane <> 0 or ((p_job_types is null and cardinality(v_types) = 0) or exists (
                              select 1 from tidemill.jobs j where j.id = c.job_id
                                and (p_job_types is null or j.job_type = any(p_job_types)) and not (j.job_type = any(v_types)))))
                        order by c.run_at, c.job_id limit w.n for update skip locked) d where w.spot is null) || array(
                    select d.ctid from want w
                    cross join lateral (
                        select c.ctid from tidemill.job_queue_entries c
                        where c.ctid = w.spot and c.queue_id = p_queue_id and c.lane = w.lane and c.priority = w.priority
                          and c.run_at = w.since and c.run_at <= v_now
                        limit 1 for update skip locked) d
                    where w.spot is not null))
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
                select t.job_id, encode(substr(sha256(v_seed || uuid_send(t.job_id)), 1, 16), 'hex')::uuid, p_queue_id, p_worker_id,
                       t.attempt_count + 1, t.fence + 1, t.priority, (t.traits | v_counted)::smallint, t.run_at, v_now,
                       case when p_start then v_now end, v_expires_at, v_lease_ms, t.weight, t.lane,
                       v_keys[l.i], case when t.lane <> 0 then v_parts[l.i] end, (
                           select tidemill.type_key(v_queue.project_id, o.job_type) from tidemill.queue_lanes o
                           where cardinality(v_types) > 0 and o.ctid = v_stands[l.i] and o.job_type = any(v_types))
                from taken t
                -- which of the lanes it is: the same lane at another priority has the same gates
                cross join lateral (select p.of[width_bucket(t.lane, p.lanes)] as i from positions p offset 0) l
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
            select l.job_id, l.lease_token, l.attempt::integer, l.fence::bigint, l.priority, l.run_at, l.lease_expires_at
            from leased l order by l.priority desc, l.run_at, l.job_id;
        get diagnostics v_taken = row_count;
        v_room := v_room - v_taken;
        if v_taken > 0 then  -- time goes by what is served: a claim in vain must not let those that come back go behind the others
            v_clock := v_turn;
        end if;

        v_is_all := v_taken = (select sum(w.n) from unnest(v_wants) as w (n));
        -- A lane had nothing after all (its job was cancelled, or somebody holds it): the place of a type's limit that it was given is for those of the type that
        -- this round has set aside. The next claim looks at them again.
        if not v_is_all and v_special and v_types <> '{}' then
            insert into tidemill.lane_news (queue_id, limit_keys)
            select p_queue_id, array_agg(tidemill.type_key(v_queue.project_id, t.job_type))
            from (select o.job_type
                  from generate_subscripts(v_lanes, 1) as i
                  cross join lateral (
                      select r.job_type from tidemill.queue_lanes r
                      where r.queue_id = p_queue_id and r.lane = v_lanes[i] and r.priority = v_levels[i] limit 1) o
                  where o.job_type = any(v_types)
                  group by o.job_type having min(v_wants[i]) = 0 and max(v_wants[i]) > 0) t
            having count(*) > 0;
        end if;
        -- partitions of lanes that are on offer still have something to give, though none of their lanes is ready
        v_emptied := case when v_names = '{}' then v_parts else array(
            select p.name from unnest(v_parts) as p (name) except select o.name from unnest(v_names) as o (name)) end;
        perform tidemill.leave_lanes(p_queue_id, v_lanes, v_levels, v_stands, v_since, v_emptied, v_wants, case when v_is_all and v_limited then v_lefts end,
                                     v_naps, v_now);
        -- Somebody holds what a hint told of: whatever else waits for the limit has not been looked for.
        if not v_is_all then
            insert into tidemill.lane_news (queue_id, limit_keys)
            select p_queue_id, array_agg(f.key)
            from (select v_keys[i] as key from generate_subscripts(v_lanes, 1) as i
                  where v_spots[i] is not null and v_wants[i] > 0
                    and (select l.job_id from tidemill.job_leases l where l.limit_key = v_keys[i] limit 1) is null) f
            having count(*) > 0;
        end if;
        v_empty := v_empty || array(
            select v_levels[i] from generate_subscripts(v_lanes, 1) as i
            where v_lanes[i] = 0 and v_taken < v_wants[i]);
        -- nothing came of a whole round though lanes seemed ready: somebody holds their entries. They are looked at again soon, and the others have a turn,
        -- a few times. (What has no gates may be for other workers all of it.)
        if v_taken = 0 and not exists (select 1 from generate_subscripts(v_lanes, 1) as i where v_wants[i] = 0 or v_spots[i] is not null or v_lanes[i] = 0) then
            v_vain := v_vain + 1;
            exit when v_vain > 3;
            update tidemill.queue_lanes l set is_ready = false, look_at = v_now + interval '50 milliseconds'
            where l.ctid = any(array(
                select o.ctid from generate_subscripts(v_lanes, 1) as i
                cross join lateral (
                    select r.ctid from tidemill.queue_lanes r
                    where r.queue_id = p_queue_id and r.lane = v_lanes[i] and r.priority = v_levels[i] and r.is_ready limit 1) o));
        end if;
    end loop;

    if v_free_places is not null then
        perform tidemill.put_back(p_queue_id, p_limit - v_room, v_free_parts, v_free_places, v_free_dues, v_free_keys, v_free_limits, v_free_spots);
    end if;
    if v_clock is not null then
        insert into tidemill.queue_clocks as c (queue_id, virtual_time) values (p_queue_id, v_clock)
        on conflict (queue_id) do update set virtual_time = greatest(c.virtual_time, excluded.virtual_time);
    end if;
end $$;
