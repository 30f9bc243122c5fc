-- What a gated claim does before it chooses and after it has taken, with hints of what is next (0027, 0029; docs/adr/0023). None has settings of the planner:
-- a claim brings them along.

-- Lanes whose limit has places again, as the first round may choose them, each with the job that is next in it and whether it may stay as it is written if
-- the round fills it again (then its due_at is of a job that went before). Those that hints tell of (p_places, p_spots, p_dues, p_keys: free_places) are read by
-- place; the lanes of other limits (p_freed) are searched, and those of limits with a hint that does not hold: the lane or the entry is not there any more, or
-- something may have come in front of it (p_told_lanes, p_told_levels, p_told_dues: read_news). Those with other gates (p_types: job types with a standing
-- limit; p_is_for_all: the claim takes
-- all job types) are ready like any other lane, those that are empty go. woken: partitions of all that have something due; parts: of each lane.
-- Only for claims, under the queue's lock. At most 100 lanes of a limit. Locks: lanes.
create function tidemill.offer_freed(
    p_queue_id uuid, p_freed bigint[], p_places tid[], p_spots tid[], p_dues timestamptz[], p_keys bigint[],
    p_told_lanes bigint[], p_told_levels smallint[], p_told_dues timestamptz[], p_is_for_all boolean, p_types text[], p_now timestamptz,
    out woken text[], out parts text[], out places tid[], out lanes bigint[], out levels smallint[], out dues timestamptz[], out keys bigint[],
    out limits integer[], out spots tid[], out naps boolean[])
language plpgsql as $$
#variable_conflict use_column
declare
    v_bare tid[];
    v_places tid[];          -- what is written at once, sorted, and when each has something due
    v_dues timestamptz[];
begin
    with told as materialized (
        -- offset 0: each hint's lane and entry are looked up by place, not joined
        select h.key, h.due_at, h.spot, r.*, e.is_there is not true as is_searched
        from unnest(p_places, p_spots, p_dues, p_keys) as h (place, spot, due_at, key)
        left join lateral (
            select l.ctid as place, l.partition_key, l.lane, l.priority, l.concurrency_limit, l.look_at
            from tidemill.queue_lanes l
            where l.ctid = h.place and l.queue_id = p_queue_id and l.limit_key = h.key and l.blocked_by = 'concurrency_key' and l.concurrency_limit = 1
              and l.rate_class is null and l.sticky_worker is null and not (l.job_type = any(p_types)) and p_is_for_all and h.due_at <= p_now
              and (p_told_lanes is null or not exists (
                  select 1 from unnest(p_told_lanes, p_told_levels, p_told_dues) as t (lane, priority, due_at)
                  where t.lane = l.lane and t.priority = l.priority and t.due_at <= h.due_at))
            limit 1) r on true
        left join lateral (
            select true as is_there from tidemill.job_queue_entries i
            where i.ctid = h.spot and i.queue_id = p_queue_id and i.lane = r.lane and i.priority = r.priority and i.run_at = h.due_at
            limit 1) e on true
    ), searched as materialized (
        select array(select t.key from told t where t.is_searched union select u.key from unnest(p_freed) as u (key)) as keys
    ), freed as materialized (
        select o.*
        from (select u.key from searched s cross join lateral unnest(s.keys) as u (key)) k
        cross join lateral (
            select r.ctid as place, r.partition_key, r.lane, r.priority, r.limit_key, r.concurrency_limit, r.look_at, e.due_at, e.spot,
                   e.due_at <= p_now and r.rate_class is null and r.sticky_worker is null and p_is_for_all and not (r.job_type = any(p_types))
                   as is_offer
            from tidemill.queue_lanes r
            left join lateral (
                select i.run_at as due_at, i.ctid as spot from tidemill.job_queue_entries i
                where i.queue_id = p_queue_id and i.lane = r.lane and i.priority = r.priority and i.run_at >= r.due_at
                order by i.run_at, i.job_id limit 1) e on true
            where r.limit_key = k.key and r.queue_id = p_queue_id and r.blocked_by = 'concurrency_key' limit 100) o
    ), later as materialized (
        select array_agg(f.place) filter (where f.due_at is null) as bare,
               array_agg(f.place order by f.place) filter (where f.due_at is not null) as places,
               array_agg(f.due_at order by f.place) filter (where f.due_at is not null) as dues,
               array_agg(distinct f.partition_key) filter (where f.due_at <= p_now) as names
        from freed f where f.is_offer is not true
    ), offers as materialized (
        select array_agg(f.partition_key) as names, array_agg(f.place) as places, array_agg(f.lane) as lanes, array_agg(f.priority) as levels,
               array_agg(f.due_at) as dues, array_agg(f.limit_key) as keys, array_agg(f.concurrency_limit) as limits, array_agg(f.spot) as spots,
               array_agg(f.look_at > p_now + interval '1 second') as naps
        from (select t.partition_key, t.place, t.lane, t.priority, t.due_at, t.key as limit_key, t.concurrency_limit, t.spot, t.look_at
              from told t where not t.is_searched and t.key <> all ((select s.keys from searched s)::bigint[])
              union all
              select o.partition_key, o.place, o.lane, o.priority, o.due_at, o.limit_key, o.concurrency_limit, o.spot, o.look_at
              from freed o where o.is_offer) f
    )
    select l.bare, l.places, l.dues, coalesce(l.names, '{}') || array(select distinct n.name from unnest(o.names) as n (name)),
           o.names, o.places, o.lanes, o.levels, o.dues, o.keys, o.limits, o.spots, o.naps
    into v_bare, v_places, v_dues, woken, parts, places, lanes, levels, dues, keys, limits, spots, naps
    from later l cross join offers o;
    update tidemill.queue_lanes l
    set (due_at, is_ready, look_at, blocked_by, blocked_since) = (
        select h.due_at, h.due_at <= p_now, h.due_at, null::text, null::timestamptz from (select v_dues[width_bucket(l.ctid, v_places)] as due_at offset 0) h)
    where l.ctid = any(v_places);
    delete from tidemill.queue_lanes l where l.ctid = any(v_bare);
end $$;

-- The choice of a round in which one partition has the turn and nothing but lanes of freed limits of 1 (each gives one job): the highest priority first, then
-- the earliest due, each limit once. is_chosen: whether it is such a round (the others are chosen by claim_gated, partition by partition). places to naps:
-- the chosen ones, in order, as claim_gated names them. Arrays in: as offer_freed returns them. Only for claims, under the queue's lock. Locks: none.
create function tidemill.choose_freed(
    p_queue_id uuid, p_room integer, p_now timestamptz, p_parts text[], p_places tid[], p_lanes bigint[], p_levels smallint[],
    p_dues timestamptz[], p_keys bigint[], p_limits integer[], p_spots tid[], p_naps boolean[],
    out is_chosen boolean, out lanes bigint[], out levels smallint[], out dues timestamptz[], out places tid[], out spots tid[], out naps boolean[],
    out parts text[], out wants integer[], out keys bigint[], out limits integer[], out turn double precision)
language plpgsql as $$
#variable_conflict use_column
declare
    v_part text;
    v_others bigint;
begin
    select min(i.partition_key), count(*) - 1, min(i.virtual_finish)
    into v_part, v_others, turn
    from (select o.partition_key, o.virtual_finish from tidemill.queue_partitions o
          where o.queue_id = p_queue_id and o.is_ready
          order by o.virtual_finish, o.partition_key limit 2) i;
    is_chosen := v_others = 0 and 1 = all(p_limits)
        and not exists (select 1 from tidemill.queue_lanes l where l.queue_id = p_queue_id and l.partition_key = v_part and l.is_ready)
        and not (v_part = '' and exists (
            select 1 from tidemill.queue_levels v
            cross join lateral (
                select 1 from tidemill.job_queue_entries e
                where e.queue_id = p_queue_id and e.lane = 0 and e.priority = v.priority and e.run_at <= p_now limit 1) d
            where v.queue_id = p_queue_id));
    if not is_chosen then
        return;
    end if;
    select array_agg(c.lane), array_agg(c.priority), array_agg(c.due_at), array_agg(c.place), array_agg(c.spot), array_agg(c.may_nap),
           array_agg(v_part), array_agg(1), array_agg(c.limit_key), array_agg(1)
    into lanes, levels, dues, places, spots, naps, parts, wants, keys, limits
    from (
        select u.* from (
            select f.*, row_number() over (partition by f.limit_key order by f.priority desc, f.due_at, f.lane) as of_limit
            from unnest(p_lanes, p_levels, p_dues, p_keys, p_places, p_spots, p_naps) as f (lane, priority, due_at, limit_key, place, spot, may_nap)) u
        where u.of_limit = 1
        order by u.priority desc, u.due_at, u.lane limit p_room) c;
end $$;

-- The order of offered lanes by partition, and then as they are served. Arrays in: as offer_freed returns them. places: where in these arrays each stands;
-- names: each partition once, in order; firsts: where the lanes of each begin, and at the end where the next one's would. Locks: none.
create function tidemill.sort_freed(
    p_parts text[], p_lanes bigint[], p_levels smallint[], p_dues timestamptz[], out names text[], out firsts integer[], out places integer[])
language plpgsql as $$
begin
    with sorted as materialized (
        select array_agg(f.name) as names, array_agg(f.pos::integer) as places
        from (select u.name, u.pos
              from unnest(p_parts, p_lanes, p_levels, p_dues) with ordinality as u (name, lane, priority, due_at, pos)
              order by u.name collate "C", u.priority desc, u.due_at, u.lane) f
    ), named as materialized (
        select array_agg(n.name order by n.first) as names, array_agg(n.first order by n.first) as firsts
        from (select u.name, min(u.pos)::integer as first from sorted o cross join lateral unnest(o.names) with ordinality as u (name, pos) group by u.name) n
    )
    select n.names, n.firsts || cardinality(s.names) + 1, s.places into names, firsts, places from sorted s cross join named n;
end $$;

-- What was offered and not chosen. If it is at most four times what the claim took, the next one is told again, which costs a sixth of writing the lane twice;
-- else it is ready like any other lane, so that many small claims need not look at all of it. Arrays: as offer_freed returns them. Only for claims, under the
-- queue's lock. Locks: lanes.
create function tidemill.put_back(
    p_queue_id uuid, p_taken integer, p_parts text[], p_places tid[], p_dues timestamptz[], p_keys bigint[], p_limits integer[], p_spots tid[]) returns void
language plpgsql as $$
declare
    v_keys bigint[];
begin
    if cardinality(p_places) > 4 * p_taken then
        update tidemill.queue_lanes l
        set (due_at, is_ready, look_at, blocked_by, blocked_since) = (
            select h.due_at, true, h.due_at, null::text, null::timestamptz
            from (select coalesce((  -- a hint may pass over what was committed since
                      select e.run_at from tidemill.job_queue_entries e
                      where e.queue_id = p_queue_id and e.lane = l.lane and e.priority = l.priority and e.run_at >= l.due_at
                      order by e.run_at limit 1), l.due_at) as due_at offset 0) h)
        where l.ctid = any(p_places);
        perform tidemill.ready_partitions(p_queue_id, array(select distinct u.name from unnest(p_parts) as u (name)));
        return;
    end if;
    v_keys := array(select distinct u.key from unnest(p_keys, p_limits) as u (key, n) where u.n > 1);
    insert into tidemill.lane_news (queue_id, limit_keys)
    select p_queue_id, v_keys[200 * n + 1 : 200 * n + 200] from generate_series(0, (cardinality(v_keys) - 1) / 200) as n where v_keys <> '{}';
    insert into tidemill.lane_news (queue_id, places, spots, dues, place_keys)
    select p_queue_id, array_agg(h.place), array_agg(h.spot), array_agg(h.due_at), array_agg(h.key)
    from (select u.place, u.spot, u.due_at, u.key, (row_number() over () - 1) / 60 as part
          from unnest(p_places, p_spots, p_dues, p_keys, p_limits) as u (place, spot, due_at, key, n) where u.n = 1) h
    group by h.part;
end $$;

-- The first thousand ready lanes, by their partitions' turns, are set aside where their limits are full, so that thousands of busy keys do not stand in front
-- of what may go; partitions that have nothing else, not even lanes on offer (p_offered), leave the circle. Counted without the limits' locks: who ends a
-- lease that is counted here tells of its place afterwards. Only for claims, under the queue's lock. Locks: lanes, partitions.
create function tidemill.pass_busy(p_queue_id uuid, p_offered text[], p_now timestamptz) returns void
language plpgsql as $$
begin
    update tidemill.queue_lanes l
    set is_ready = false, blocked_by = 'concurrency_key', blocked_since = coalesce(l.blocked_since, p_now),
        look_at = p_now + interval '5 seconds' * (0.8 + 0.4 * random())
    where l.ctid = any(array(
        select f.place
        from (select o.place, o.limit_key, o.concurrency_limit
              from (select p.partition_key from tidemill.queue_partitions p
                    where p.queue_id = p_queue_id and p.is_ready
                    order by p.virtual_finish, p.partition_key limit 1000) t
              cross join lateral (
                  select i.ctid as place, i.limit_key, i.concurrency_limit from tidemill.queue_lanes i
                  where i.queue_id = p_queue_id and i.partition_key = t.partition_key and i.is_ready
                  order by i.priority desc, i.due_at, i.lane limit 1000) o
              limit 1000) f
        where f.limit_key is not null
          and (select count(*) from (select 1 from tidemill.job_leases h where h.limit_key = f.limit_key limit f.concurrency_limit) x) >= f.concurrency_limit));
    update tidemill.queue_partitions p set is_ready = false
    where p.ctid = any(array(
        select i.ctid from (
            select o.ctid, o.partition_key from tidemill.queue_partitions o
            where o.queue_id = p_queue_id and o.is_ready
            order by o.virtual_finish, o.partition_key limit 1000) i
        where i.partition_key <> '' and not (i.partition_key = any(p_offered))
          and (select l.lane from tidemill.queue_lanes l
               where l.queue_id = p_queue_id and l.partition_key = i.partition_key and l.is_ready
               order by l.priority desc, l.due_at, l.lane limit 1) is null));
end $$;

-- What the lanes of a round look like after it (an entry that is committed later brings its own news). Those that it has filled to their limit, as p_lefts
-- says (null: none), wait for one of these leases to end. One that was written so before (p_naps) stays as it is, thirty-one times in thirty-two: so what lies
-- behind its due_at, and is gone, stays little; if it has no more entries, who looks for the next finds that. Of p_parts those leave the circle that lose their
-- last lane. Looked up key by key and changed by place, because a join may read all lanes for each of them. Only for claims, under the queue's lock. Locks: lanes,
-- partitions.
create or replace function tidemill.leave_lanes(
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
                  where e.queue_id = p_queue_id and e.lane = p_lanes[i] and e.priority = p_levels[i]
                    -- not from the job on that a hint told of: one may have been committed since that is due before it, and its news heard
                    and e.run_at >= least((select o.due_at from tidemill.queue_lanes o where o.ctid = p_stands[i] and o.lane = p_lanes[i] limit 1), p_since[i])
                  order by e.run_at limit 1) as due_at
          from generate_subscripts(p_lanes, 1) as i
          cross join lateral (select coalesce(p_lefts[i] = p_wants[i], false) as is_full offset 0) f
          where p_wants[i] > 0 and p_lanes[i] <> 0 and (f.is_full and p_wants[i] = 1 and p_naps[i] and random() < 0.96875) is not true
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
