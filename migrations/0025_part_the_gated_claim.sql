-- What a gated claim does before it chooses, after it has chosen, and after it has taken, apart from the order in which it does that (0026; docs/adr/0022).
-- None has settings of the planner: a claim brings them along.

-- Lanes whose limit has places again, as the first round may choose them: sorted by partition, then as they are served, each with the job that is next in it
-- and whether it may stay as it is written if the round fills it again (then its due_at is of a job that went before). parts: their partitions, each once;
-- firsts: where the lanes of each begin, and at the end where the next one's would. Those with other gates (p_types: job types with a standing limit;
-- p_is_for_all: the claim takes all job types) are ready like any other lane, those that are empty go. woken: partitions of all that have something due.
-- Only for claims, under the queue's lock. At most 100 lanes of a limit. Locks: lanes.
create function tidemill.offer_freed(
    p_queue_id uuid, p_freed bigint[], p_is_for_all boolean, p_types text[], p_now timestamptz,
    out woken text[], out parts text[], out firsts integer[], out places tid[], out lanes bigint[], out levels smallint[], out dues timestamptz[],
    out keys bigint[], out limits integer[], out spots tid[], out naps boolean[])
language plpgsql as $$
#variable_conflict use_column
declare
    v_bare tid[];
    v_places tid[];          -- what is written at once, sorted, and when each has something due
    v_dues timestamptz[];
begin
    with freed as materialized (
        select o.*
        from unnest(p_freed) as k (key)
        cross join lateral (
            select r.ctid as place, r.partition_key, r.lane, r.priority, r.limit_key, r.concurrency_limit, e.due_at, e.spot,
                   e.is_more and r.look_at > p_now + interval '1 second' as may_nap,
                   e.due_at <= p_now and r.rate_class is null and r.sticky_worker is null and p_is_for_all and not (r.job_type = any(p_types))
                   as is_offer
            from tidemill.queue_lanes r
            cross join lateral (
                select min(c.run_at) as due_at, (array_agg(c.ctid))[1] as spot, count(*) > 1 as is_more
                from (select i.run_at, i.ctid from tidemill.job_queue_entries i
                      where i.queue_id = p_queue_id and i.lane = r.lane and i.priority = r.priority and i.run_at >= r.due_at
                      order by i.run_at, i.job_id limit 2) c) e
            where r.limit_key = k.key and r.queue_id = p_queue_id and r.blocked_by = 'concurrency_key' limit 100) o
    ), later as materialized (
        select array_agg(f.place) filter (where f.due_at is null) as bare,
               array_agg(f.place order by f.place) filter (where f.due_at is not null) as places,
               array_agg(f.due_at order by f.place) filter (where f.due_at is not null) as dues,
               array_agg(distinct f.partition_key) filter (where f.due_at <= p_now) as names
        from freed f where f.is_offer is not true
    ), offers as materialized (
        select array_agg(f.partition_key order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as names,
               array_agg(f.place order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as places,
               array_agg(f.lane order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as lanes,
               array_agg(f.priority order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as levels,
               array_agg(f.due_at order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as dues,
               array_agg(f.limit_key order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as keys,
               array_agg(f.concurrency_limit order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as limits,
               array_agg(f.spot order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as spots,
               array_agg(f.may_nap order by f.partition_key collate "C", f.priority desc, f.due_at, f.lane) as naps
        from freed f where f.is_offer
    ), names as materialized (
        select array_agg(n.name order by n.first) as names, array_agg(n.first order by n.first) as firsts
        from (select u.name, min(u.pos)::integer as first from offers o cross join lateral unnest(o.names) with ordinality as u (name, pos) group by u.name) n
    )
    select l.bare, l.places, l.dues, coalesce(l.names, '{}') || coalesce(n.names, '{}'), n.names, n.firsts || cardinality(o.names) + 1,
           o.places, o.lanes, o.levels, o.dues, o.keys, o.limits, o.spots, o.naps
    into v_bare, v_places, v_dues, woken, parts, firsts, places, lanes, levels, dues, keys, limits, spots, naps
    from later l cross join offers o cross join names n;
    update tidemill.queue_lanes l
    set (due_at, is_ready, look_at, blocked_by, blocked_since) = (
        select h.due_at, h.due_at <= p_now, h.due_at, null::text, null::timestamptz from (select v_dues[width_bucket(l.ctid, v_places)] as due_at offset 0) h)
    where l.ctid = any(v_places);
    delete from tidemill.queue_lanes l where l.ctid = any(v_bare);
end $$;

-- Gates of few lanes: standing limits of their job type and rate classes, lane by lane. wants, how many jobs each of the round's lanes is to give, comes back
-- as what it may give; who may not is blocked until its gate opens. p_may_sweep: other lanes at a gate that lets nobody in may be set aside as well
-- (is_swept: were). Only for claims, under the queue's lock. Locks: a key for each type's count; rate classes (skip locked); lanes, partitions.
create function tidemill.pass_special(
    p_project_id uuid, p_queue_id uuid, p_types text[], p_most integer[], p_rules tidemill.saturation_rule[], p_lanes bigint[], p_levels smallint[],
    p_stands tid[], p_since timestamptz[], p_parts text[], p_may_sweep boolean, p_now timestamptz, inout wants integer[], out is_swept boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_free integer[];        -- places left in this round; null: not counted yet; -1: another claim counts them
    v_asking integer[];      -- jobs that found none
    v_at integer;
    v_first integer;
    v_shut text[];           -- types and rate classes that let nobody in at all, found in this round
    v_dry text[];
    v_dry_again timestamptz; -- when the last of them has a token again, and in which time it earns one
    v_token_secs double precision;
    v_places tid[];
    v_row record;
    v_rate tidemill.rate_classes;
    v_tokens double precision;
    v_spent double precision;
    v_blocked text;
    v_again timestamptz;
    v_n integer;
    v_count integer;
begin
    is_swept := false;
    v_free := array_fill(null::integer, array[cardinality(p_types)]);
    v_asking := array_fill(0, array[cardinality(p_types)]);
    v_shut := '{}';
    v_dry := '{}';
    for v_row in
        select i, l.rate_class, l.job_type
        from generate_subscripts(p_lanes, 1) as i
        cross join lateral (
            select o.rate_class, o.job_type from tidemill.queue_lanes o where o.ctid = p_stands[i] limit 1) l
        where wants[i] > 0 and (l.rate_class is not null or l.job_type = any(p_types))
        order by i
    loop
        v_blocked := null;
        v_n := wants[v_row.i];
        v_at := array_position(p_types, v_row.job_type);
        if v_at is not null then
            if v_free[v_at] is null then
                if pg_try_advisory_xact_lock(tidemill.type_key(p_project_id, v_row.job_type)) then
                    v_free[v_at] := p_most[v_at] - (
                        select count(*) from (select 1 from tidemill.job_leases l
                                              where l.type_key = tidemill.type_key(p_project_id, v_row.job_type) limit p_most[v_at]) x)::integer;
                else
                    v_free[v_at] := -1;
                end if;
            end if;
            if v_free[v_at] <= 0 then
                v_blocked := 'concurrency_key';
                v_again := p_now + case when v_free[v_at] < 0 then interval '5 milliseconds' else interval '20 seconds' * (0.8 + 0.4 * random()) end;
                if v_free[v_at] = 0 then
                    v_asking[v_at] := v_asking[v_at] + v_n;
                    v_shut := v_shut || v_row.job_type::text;
                end if;
            end if;
            v_n := least(v_n, v_free[v_at]);
        end if;
        if v_blocked is null and v_row.rate_class is not null then
            select r.* into v_rate from tidemill.rate_classes r
            where r.project_id = p_project_id and r.name = v_row.rate_class for no key update skip locked;
            if found then
                v_tokens := tidemill.tokens_now(v_rate, p_now);
                select count(*) filter (where x.fits), coalesce(sum(x.cost) filter (where x.fits), 0), min(x.cost) filter (where x.upto = x.cost)
                into v_count, v_spent, v_first
                -- a job dearer than the bucket passes when the bucket is full
                from (select h.cost, h.upto, h.upto <= v_tokens + 1e-9 or (h.upto = h.cost and v_tokens >= v_rate.burst) as fits
                      from (select e.cost, sum(e.cost) over (order by e.run_at, e.job_id) as upto
                            from (select coalesce(c.weight, 1) as cost, c.run_at, c.job_id from tidemill.job_queue_entries c
                                  where c.queue_id = p_queue_id and c.lane = p_lanes[v_row.i] and c.priority = p_levels[v_row.i]
                                    and c.run_at >= p_since[v_row.i] and c.run_at <= p_now
                                  order by c.run_at, c.job_id limit v_n) e) h) x;
                if v_count > 0 then
                    v_n := least(v_n, v_count);
                    -- never back in time: two claims that began in the other order would both count the time between
                    update tidemill.rate_classes r set tokens = v_tokens - v_spent, refilled_at = greatest(r.refilled_at, p_now)
                    where r.project_id = p_project_id and r.name = v_row.rate_class;
                elsif v_first is not null then  -- else nothing of the lane is due any more, which the take finds
                    v_blocked := 'rate_class';
                    v_again := case when v_rate.is_paused then p_now + interval '1 minute'
                        else greatest(p_now, v_rate.closed_until, v_rate.refilled_at) + make_interval(secs => greatest(0.001,
                            (least(v_rate.burst::double precision, v_first) - case when v_rate.closed_until > p_now then v_rate.tokens else v_tokens end)
                            * v_rate.window_ms / v_rate."limit" / 1000.0)) end;
                    if v_tokens < 1 then
                        v_dry := v_dry || v_row.rate_class::text;
                        v_dry_again := v_again;
                        v_token_secs := v_rate.window_ms / 1000.0 / v_rate."limit";
                    end if;
                end if;
            elsif exists (select 1 from tidemill.rate_classes r where r.project_id = p_project_id and r.name = v_row.rate_class) then
                v_blocked := 'rate_class';
                v_again := p_now + interval '5 milliseconds';
            end if;
        end if;
        if v_blocked is not null then
            wants[v_row.i] := 0;
            update tidemill.queue_lanes l
            set is_ready = false, blocked_by = v_blocked, blocked_since = coalesce(l.blocked_since, p_now), look_at = v_again,
                type_key = case when v_at is not null then tidemill.type_key(p_project_id, v_row.job_type) end
            where l.queue_id = p_queue_id and l.lane = p_lanes[v_row.i] and l.priority = p_levels[v_row.i];
        else
            wants[v_row.i] := v_n;
            if v_at is not null then
                v_free[v_at] := v_free[v_at] - v_n;
            end if;
        end if;
    end loop;
    for v_at in 1..cardinality(p_types) loop
        if v_asking[v_at] > 0 and p_rules[v_at] = 'cancel_running' then
            perform tidemill.stop_oldest(null, tidemill.type_key(p_project_id, p_types[v_at]), v_asking[v_at], p_now);
        end if;
    end loop;

    -- what waits at a gate that lets nobody in is set aside at once, so that thousands of such lanes do not stand in front of what may go; their
    -- looks are spread over the time in which the class earns a token for each. At most 5,000 lanes in a claim: the next one goes on
    if (v_shut <> '{}' or v_dry <> '{}') and p_may_sweep then
        is_swept := true;
        v_places := array(  -- by place, because a join would read all lanes for each; nobody else moves them under the queue's lock
            select r.ctid
            from (select o.ctid, o.lane, o.job_type, o.rate_class from tidemill.queue_lanes o where o.queue_id = p_queue_id and o.is_ready limit 5000) r
            where (r.job_type = any(v_shut) or r.rate_class = any(v_dry)) and not (r.lane = any(p_lanes))
            limit 1000);
        update tidemill.queue_lanes l
        set is_ready = false, blocked_by = case when l.job_type = any(v_shut) then 'concurrency_key' else 'rate_class' end, blocked_since = p_now,
            look_at = case when l.job_type = any(v_shut) then p_now + interval '2 minutes' * (0.5 + random())
                           else v_dry_again + make_interval(secs => least(60, cardinality(v_places) * coalesce(v_token_secs, 0)) * random()) end,
            type_key = case when l.job_type = any(v_shut) then tidemill.type_key(p_project_id, l.job_type) end
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
                       then not (i.partition_key = any(p_parts)) else false end));
    end if;
end $$;

-- What the lanes of a round look like after it (an entry that is committed later brings its own news). Those that it has filled to their limit, as p_lefts
-- says (null: none), wait for one of these leases to end. One that was written so before (p_naps) and has more behind stays as it is, fifteen times in
-- sixteen: so what lies behind its due_at, and is gone, stays little. Looked up key by key and changed by place, because a join may read all lanes for
-- each of them. Only for claims, under the queue's lock. Locks: lanes, partitions.
create function tidemill.leave_lanes(
    p_queue_id uuid, p_lanes bigint[], p_levels smallint[], p_stands tid[], p_since timestamptz[], p_parts text[], p_wants integer[], p_lefts integer[],
    p_naps boolean[], p_now timestamptz) returns void
language plpgsql as $$
#variable_conflict use_column
declare
    v_bare tid[];            -- lanes that have no entries left
    v_places tid[];          -- the others, sorted: when their next job is due, and whether the round has filled their limit
    v_dues timestamptz[];
    v_fulls boolean[];
begin
    select array_agg(x.place) filter (where x.due_at is null),
           array_agg(x.place order by x.place) filter (where x.due_at is not null),
           array_agg(x.due_at order by x.place) filter (where x.due_at is not null),
           array_agg(x.is_full order by x.place) filter (where x.due_at is not null)
    into v_bare, v_places, v_dues, v_fulls
    from (select p_stands[i] as place, f.is_full,
                 (select e.run_at from tidemill.job_queue_entries e
                  where e.queue_id = p_queue_id and e.lane = p_lanes[i] and e.priority = p_levels[i] and e.run_at >= p_since[i]
                  order by e.run_at limit 1) as due_at
          from generate_subscripts(p_lanes, 1) as i
          cross join lateral (select coalesce(p_lefts[i] = p_wants[i], false) as is_full offset 0) f
          where p_wants[i] > 0 and p_lanes[i] <> 0 and (f.is_full and p_wants[i] = 1 and p_naps[i] and random() < 0.9375) is not true
          offset 0) x;  -- offset 0: what is looked up is looked up once
    update tidemill.queue_lanes l
    set (due_at, is_ready, look_at, blocked_by, blocked_since) = (
        select h.run_at, h.run_at <= p_now and not h.is_full,
               case when h.is_full then greatest(h.run_at, p_now + interval '5 seconds' * (0.8 + 0.4 * random())) else h.run_at end,
               case when h.is_full then 'concurrency_key' end, case when h.is_full then p_now end
        from (select v_dues[width_bucket(l.ctid, v_places)] as run_at, v_fulls[width_bucket(l.ctid, v_places)] as is_full offset 0) h)
    where l.ctid = any(v_places);
    delete from tidemill.queue_lanes l where l.ctid = any(v_bare);
    if v_bare is not null then  -- partitions that have lost their last lane leave the circle now: there may be no next claim at this queue
        update tidemill.queue_partitions p set is_ready = false
        where p.ctid = any(array(
            select o.ctid from (select distinct n.key from unnest(p_parts) as n (key)) k
            cross join lateral (
                select i.ctid from tidemill.queue_partitions i
                where i.queue_id = p_queue_id and i.partition_key = k.key and i.is_ready limit 1) o
            where k.key <> ''
              and (select l.lane from tidemill.queue_lanes l
                   where l.queue_id = p_queue_id and l.partition_key = k.key and l.is_ready
                   order by l.priority desc, l.due_at, l.lane limit 1) is null));
    end if;
end $$;
