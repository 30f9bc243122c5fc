-- Who ends a job of a busy limit says where the next one is, so that a claim need not search for it while it has the queue to itself (docs/adr/0023).

-- News of a sixth kind: lanes of limits that have a place again, by place: where the lane's row is, where its next entry is, since when that is due, and the
-- limit. Hints, not facts: whoever follows them asks again whether it is still the lane and the entry (a vacuum, a restore, an operator or another claim may
-- have moved either), and searches the limit's lanes if not.
alter table tidemill.lane_news add column places tid[], add column spots tid[], add column dues timestamptz[], add column place_keys bigint[];
-- squawk-ignore ban-drop-constraint
alter table tidemill.lane_news drop constraint lane_news_one_kind; -- a wider one follows at once
alter table tidemill.lane_news add constraint lane_news_one_kind check (
    num_nonnulls(job_id, limit_key, limit_keys, lane, lanes, places) = 1
    and (run_at is null) = (num_nonnulls(limit_key, limit_keys, places) = 1)
    and (lane is null) = (priority is null)
    and num_nonnulls(job_ids, run_ats, lanes, priorities) in (0, 4)
    and num_nonnulls(places, spots, dues, place_keys) in (0, 4)) not valid;

-- Places of these limits have come free: news for every queue that has lanes under them, two hundred limits in a row, or hints, sixty in a row (more would
-- be stored apart). A null queue: only those. Returns how many limits. Locks: none.
-- Another queue that hears nothing (it is paused, or has no workers) is told until news of about 20,000 rows' time wait there; from then on its lanes are looked
-- at by the clock only, within six seconds of its next claim.
-- A hint tells of the only lane that there is under a limit, in all queues: who follows it looks for no others. It waits for a limit of 1, has no other gates, and
-- has a job that is due by p_now (null: the clock). What comes to a lane later is due later; if not (its priority was edited, its transaction took long), news of
-- it say since when. Under a larger limit there are others who may take that job meanwhile.
-- (That of two arguments is for acks of workers from before, which tell of limits only; it goes in a later release.)
create function tidemill.free_places(p_queue_ids uuid[], p_limit_keys bigint[], p_now timestamptz) returns bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_memoize = off
as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_own uuid[] := array(select distinct q.id from unnest(p_queue_ids) as q (id) where q.id is not null);
    v_count bigint;
begin
    with waiting as materialized (
        select l.*
        from (select distinct u.key from unnest(p_limit_keys) as u (key)) k
        cross join lateral (
            select o.queue_id, o.limit_key, o.lane, o.priority, o.due_at, o.ctid as place,
                   o.blocked_by = 'concurrency_key' and o.concurrency_limit = 1 and o.rate_class is null and o.sticky_worker is null as is_bare
            from tidemill.queue_lanes o where o.limit_key = k.key limit 100) l
    ), shared as materialized (
        select array(select w.limit_key from waiting w group by w.limit_key having count(*) > 1) as keys
    ), deaf as materialized (
        select d.queue_id
        from (select distinct w.queue_id from waiting w where w.queue_id <> all (v_own)) d
        where (select n.id from tidemill.lane_news n where n.queue_id = d.queue_id order by n.id desc limit 1)
            - (select n.id from tidemill.lane_news n where n.queue_id = d.queue_id order by n.id limit 1) > 20000
    ), told as materialized (
        select w.* from waiting w where w.queue_id <> all (array(select d.queue_id from deaf d))
    ), hinted as materialized (
        select t.queue_id, t.limit_key, t.place, e.spot, e.run_at
        from told t
        cross join lateral (
            select i.ctid as spot, i.run_at from tidemill.job_queue_entries i
            where i.queue_id = t.queue_id and i.lane = t.lane and i.priority = t.priority and i.run_at >= t.due_at and i.run_at <= v_now
            order by i.run_at, i.job_id limit 1) e
        where t.is_bare and t.limit_key <> all ((select s.keys from shared s)::bigint[])
    ), places as materialized (
        (select q.queue_id, q.limit_key from rows from (unnest(p_queue_ids), unnest(p_limit_keys)) as q (queue_id, limit_key)
        where q.queue_id is not null and q.limit_key is not null
        union all
        select t.queue_id, t.limit_key from told t
        union all
        select l.queue_id, l.type_key
        from (select distinct u.key from unnest(p_limit_keys) as u (key)
              where exists (select 1 from tidemill.queue_lanes a where a.type_key is not null)) k
        cross join lateral (select o.queue_id, o.type_key from tidemill.queue_lanes o where o.type_key = k.key order by o.blocked_since limit 100) l)
        except
        select h.queue_id, h.limit_key from hinted h
    ), hints as (
        insert into tidemill.lane_news (queue_id, places, spots, dues, place_keys)
        select h.queue_id, array_agg(h.place), array_agg(h.spot), array_agg(h.run_at), array_agg(h.limit_key)
        from (select i.*, (row_number() over (partition by i.queue_id) - 1) / 60 as part from hinted i) h
        group by h.queue_id, h.part
        returning cardinality(places) as n
    ), news as (
        insert into tidemill.lane_news (queue_id, limit_keys)
        select n.queue_id, array_agg(n.limit_key)
        from (select p.queue_id, p.limit_key, (row_number() over (partition by p.queue_id) - 1) / 200 as part from places p) n
        group by n.queue_id, n.part
        returning cardinality(limit_keys) as n)
    select coalesce(sum(a.n), 0) into v_count from (select n.n from news n union all select h.n from hints h) a;
    return v_count;
end $$;

-- What the news of a queue say is written to its lanes; what has come due or is due for another look is ready. Returns the partitions of lanes that are
-- ready now (woken), and what is the caller's to look at: the limits that have places again (freed), hints of lanes under others (places, spots, dues, place_keys:
-- free_places), and lanes that got a job which may be due before what a hint says (told_lanes, told_levels, told_dues; if they are more than fifty, the limits
-- of all hints are freed instead). At most 2,000 rows of news with 2,000 limits (or lanes, or twice as many hints), and 500 looks.
-- Only for claims (which bring their settings of the planner along), under the queue's lock. Locks: news (skip locked), lanes.
-- (hear_news is for claims that are under way while this is applied; it goes in a later release.)
create function tidemill.read_news(
    p_queue_id uuid, p_limit integer, p_now timestamptz, out woken text[], out freed bigint[], out places tid[], out spots tid[], out dues timestamptz[],
    out place_keys bigint[], out told_lanes bigint[], out told_levels smallint[], out told_dues timestamptz[])
language plpgsql
as $$
#variable_conflict use_column
declare
    v_has_types boolean;
    v_limited bigint[];      -- job types with a standing limit
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
            from (select m.id, sum(coalesce(cardinality(m.limit_keys), cardinality(m.lanes), cardinality(m.places) / 2, 0)) over (order by m.id) as upto
                  from (select i.id, i.limit_keys, i.lanes, i.places from tidemill.lane_news i where i.queue_id = p_queue_id
                        order by i.id limit 2000 for update skip locked) m) h
            where h.upto <= 2000))
        returning n.job_id, n.run_at, n.limit_key, n.limit_keys, n.lane, n.priority, n.run_ats, n.lanes, n.priorities,
            n.places, n.spots, n.dues, n.place_keys
    ), hints as materialized (
        -- of a lane that was hinted at twice, what was said last: its jobs come due in order
        select array_agg(h.place) as places, array_agg(h.spot) as spots, array_agg(h.due_at) as dues, array_agg(h.key) as keys, max(h.due_at) as upto
        from (select distinct on (u.place) u.place, u.spot, u.due_at, u.key
              from read r cross join lateral unnest(r.places, r.spots, r.dues, r.place_keys) as u (place, spot, due_at, key)
              order by u.place, u.due_at desc) h
    ), told as materialized (
        select array_agg(t.lane) as lanes, array_agg(t.priority) as levels, array_agg(t.run_at) as dues
        from (select u.lane, u.priority, u.run_at
              from hints h cross join read r cross join lateral unnest(r.run_ats, r.lanes, r.priorities) as u (run_at, lane, priority)
              where u.run_at <= h.upto
              union all
              select j.lane, j.priority, r.run_at
              from hints h cross join read r
              cross join lateral (select i.lane, i.priority from tidemill.jobs i where i.id = r.job_id limit 1) j
              where r.job_id is not null and r.run_at <= h.upto) t
    ), many as materialized (
        -- Each lane once, and only those that are not known to have something by then: with the job that is next in it now. The one that told of it may be
        -- gone, without a word when it was claimed and pruned before anybody heard, and another one may have come since.
        select array_agg(e.job_id) as jobs, array_agg(e.run_at) as times
        from (select distinct on (u.lane, u.priority) u.run_at, u.lane, u.priority
              from read r cross join lateral unnest(r.run_ats, r.lanes, r.priorities) as u (run_at, lane, priority)
              order by u.lane, u.priority, u.run_at) m
        cross join lateral (
            select i.job_id, i.run_at from tidemill.job_queue_entries i
            where i.queue_id = p_queue_id and i.lane = m.lane and i.priority = m.priority and i.run_at >= m.run_at
            order by i.run_at, i.job_id limit 1) e
        where (select o.due_at <= m.run_at and o.blocked_by is distinct from 'rate_class' from tidemill.queue_lanes o
               where o.queue_id = p_queue_id and o.lane = m.lane and o.priority = m.priority limit 1) is not true
    )
    select (select m.jobs from many m) || array_agg(r.job_id) filter (where r.job_id is not null),
           (select m.times from many m) || array_agg(r.run_at) filter (where r.job_id is not null),
           (select array_agg(distinct u.key) from read o cross join lateral unnest(coalesce(o.limit_keys, array[o.limit_key])) as u (key)
            where num_nonnulls(o.limit_key, o.limit_keys) = 1),
           array_agg(r.lane) filter (where r.lane is not null), array_agg(r.priority) filter (where r.lane is not null),
           (select h.places from hints h), (select h.spots from hints h), (select h.dues from hints h), (select h.keys from hints h),
           (select t.lanes from told t), (select t.levels from told t), (select t.dues from told t)
    into v_jobs, v_times, freed, v_lanes, v_levels, places, spots, dues, place_keys, told_lanes, told_levels, told_dues from read r;
    if cardinality(told_lanes) > 50 then  -- each is compared with each hint
        freed := freed || place_keys;
        places := null;
    end if;
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
    if v_has_types then
        v_limited := array(
            select tidemill.type_key(c.project_id, c.job_type)
            from (select i.project_id from tidemill.queues i where i.id = p_queue_id limit 1) q
            cross join lateral (select i.project_id, i.job_type from tidemill.concurrency_limits i
                                where i.project_id = q.project_id and i.job_type is not null) c);
    end if;
    with changed as (
        update tidemill.queue_lanes l
        set is_ready = l.due_at <= p_now, look_at = l.due_at, blocked_by = null, blocked_since = null
        where l.ctid = any(array(  -- by place: nobody else moves them under the queue's lock
            (select w.ctid from tidemill.queue_lanes w
             where w.queue_id = p_queue_id and not w.is_ready and w.look_at <= p_now
             order by w.look_at limit 500)
            union all
            -- a type's lanes wait in line: those that were woken in vain go to its end. Where the limit is no more, all of them go
            (select w.ctid from unnest(case when v_has_types then freed end) as k (key)
             cross join lateral (
                 select o.ctid from tidemill.queue_lanes o
                 where o.type_key = k.key and o.queue_id = p_queue_id and o.blocked_by = 'concurrency_key'
                 order by o.blocked_since limit case when k.key = any(v_limited) then 2 * p_limit + 10 else 2000 end) w)
            union all
            (select o.ctid from unnest(v_lanes, v_levels) as n (lane, priority)
             cross join lateral (
                 select r.ctid from tidemill.queue_lanes r
                 where r.queue_id = p_queue_id and r.lane = n.lane and r.priority = n.priority and r.blocked_by = 'rate_class' limit 1) o)))
        returning l.partition_key, l.is_ready
    )
    select woken || coalesce(array_agg(distinct c.partition_key), '{}') into woken from changed c where c.is_ready;
end $$;
