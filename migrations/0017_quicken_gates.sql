-- Gates that cost less: a claim from a gated queue looks up lanes and partitions key by key instead of joining them (500 jobs of 1,000 partitions once took ten
-- times the processor time of 500 plain ones), a limit that a claim fills blocks its lane there and then, a worker that is to stop is told at once, and what a
-- sweep of the quarantine takes away is news to the lane behind it.

-- on_saturated = cancel_running: asks the oldest of lowest priority to stop (of a queue's counted leases, or of a type's), one at a time and
-- never more than wait for a place. Its worker is told on its channel, where it listens, and else learns it from the next heartbeat.
create or replace function tidemill.stop_oldest(p_queue_id uuid, p_type_key bigint, p_waiting bigint, p_now timestamptz) returns void
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

-- A partition has work again, at the queue's clock if it was idle. Only for claims, under the queue's lock. Those that have work already are left out:
-- a conflict that does nothing locks, and writes, the row all the same.
create or replace function tidemill.ready_partitions(p_queue_id uuid, p_partitions text[]) returns void
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

-- A lane that is ready waits for no look: what a claim changes of it touches two indexes less.
-- squawk-ignore require-concurrent-index-creation
create index queue_lanes_to_look on tidemill.queue_lanes (look_at) where not is_ready; -- a table of few rows
-- squawk-ignore require-concurrent-index-deletion
drop index tidemill.queue_lanes_by_look;

-- Which partitions may go (scheduler/prune_partitions.sql): those with a weight of their own stay.
-- squawk-ignore require-concurrent-index-creation
create index queue_partitions_to_go on tidemill.queue_partitions (served_at) where not is_ready and weight = 1; -- a table of few rows
-- squawk-ignore require-concurrent-index-deletion
drop index tidemill.queue_partitions_idle;

-- Claims from one gated queue, as before (0008), by place and by key. Where another claim is at the queue it returns one row of nulls, so that whoever
-- asked knows that there may be something soon.
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

-- Deletes the entries of jobs that were set aside; nobody else can be at them. One may have stood in front of a lane that waits for what it costs. Locks: entries.
create or replace function tidemill.drop_entries(p_ids uuid[]) returns void
language sql volatile
begin atomic
    with gone as (
        delete from tidemill.job_queue_entries e
        using tidemill.jobs j
        where j.id = any(p_ids) and e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
        returning e.queue_id, e.lane, e.priority
    )
    insert into tidemill.lane_news (queue_id, lane, priority, run_at)
    select distinct g.queue_id, g.lane, g.priority, statement_timestamp() from gone g where g.lane <> 0;
end;
