-- A bulk call tells of many lanes in one row of news, and claims drop what they know (docs/adr/0022; 0025 and 0026 are the rest of it).

-- News of a fifth kind: lanes that have something, each with one of its jobs and when it is due. run_at is the earliest of them.
alter table tidemill.lane_news
    add column job_ids uuid[], add column run_ats timestamptz[], add column lanes bigint[], add column priorities smallint[];
-- squawk-ignore ban-drop-constraint
alter table tidemill.lane_news drop constraint lane_news_one_kind; -- a wider one follows at once
alter table tidemill.lane_news add constraint lane_news_one_kind check (
    num_nonnulls(job_id, limit_key, limit_keys, lane, lanes) = 1 and (run_at is null) = (num_nonnulls(limit_key, limit_keys) = 1)
    and (lane is null) = (priority is null)
    and num_nonnulls(job_ids, run_ats, lanes, priorities) in (0, 4)) not valid;

-- Creates jobs. One row per given job, in order: the new job, or the one that answers for its key, or what is wrong with it.
-- p_atomic: with any faulty job nothing is stored. Shapes and lengths are the callers' to check first; what reaches a
-- CHECK here raises. p_now: null = the database clock at this moment (not at the start of the transaction).
-- Speed: one pass over the JSON; whatever few jobs need (keys, families, refusals, sleepers) is a statement of its
-- own that the others never start, because an executor pays for every table that a plan names, used or not.
create or replace function tidemill.enqueue_results(p_project_id uuid, p_jobs jsonb, p_atomic boolean, p_now timestamptz default null)
returns table ("index" integer, job_id uuid, state tidemill.job_status, deduplicated boolean, code text, field text, message text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ticks bigint := tidemill.uuid7_ticks(v_now);
    v_salt uuid := gen_random_uuid();
    v_ids uuid[];
    v_queues text[];         -- distinct names, and what they stand for (null: no such queue, or closed)
    v_queue_ids uuid[];
    v_is_new_level boolean;  -- a queue is used at a priority for the first time
    v_policies text[];
    v_policy_ids uuid[];
    v_unfit integer[] := '{}';
    v_twins uuid[];          -- by position, as all below: the job that answers instead
    v_conflicts integer[] := '{}';
    v_family record;
    v_pending integer[];
    v_fates text[];
    v_strangers text[];
    v_fields text[];         -- what refuses the job; null if no job is refused
    v_messages text[];
    v_known tidemill.job_status[];  -- where the job that answers was before this call
    v_born uuid[];           -- the created ones in order, with their states
    v_states tidemill.job_status[];
    v_due uuid[];            -- queues that got a job that is due
    v_limited text[];        -- job types with a standing limit
begin
    if jsonb_typeof(p_jobs) is distinct from 'array' then
        raise exception 'jobs must be a JSON array, not %', coalesce(jsonb_typeof(p_jobs), 'null') using errcode = 'TM422';
    end if;
    if jsonb_array_length(p_jobs) > 1000 then
        raise exception 'jobs holds % items; the limit for one call is 1000: send several calls', jsonb_array_length(p_jobs)
            using errcode = 'TM422';
    end if;
    if jsonb_array_length(p_jobs) = 1 then
        v_ids := array[tidemill.uuid7(v_ticks, v_salt)];  -- no query, which would be planned anew in every call
    else
        v_ids := array(select tidemill.uuid7(v_ticks + i, v_salt) from generate_series(0, jsonb_array_length(p_jobs) - 1) as i);
    end if;

    v_limited := array(select c.job_type from tidemill.concurrency_limits c where c.project_id = p_project_id and c.job_type is not null);
    select array_agg(n.name), array_agg(q.id),
           bool_or(not exists (select 1 from tidemill.queue_levels l where l.queue_id = q.id and l.priority = n.level))
    into v_queues, v_queue_ids, v_is_new_level
    from (select distinct coalesce(r.queue, 'default') as name, coalesce(r.priority, 0::smallint) as level
          from jsonb_to_recordset(p_jobs) as r (queue text, priority smallint)) n
    left join lateral (
        select q.id from tidemill.queues q where q.project_id = p_project_id and q.name = n.name and not q.is_closed limit 1) q on true;
    if p_jobs @? '$[*].retry_policy ? (@.type() == "string")' then
        select array_agg(n.name), array_agg(p.id) into v_policies, v_policy_ids
        from (select distinct r.retry_policy #>> '{}' as name from jsonb_to_recordset(p_jobs) as r (retry_policy jsonb)
              where jsonb_typeof(r.retry_policy) = 'string') n
        left join lateral (select p.id from tidemill.retry_policies p where p.project_id = p_project_id and p.name = n.name limit 1) p on true;
    end if;
    if array_position(v_queue_ids, null) is not null or array_position(v_policy_ids, null) is not null then
        v_unfit := tidemill.unfit_jobs(p_project_id, p_jobs);
    end if;

    if p_jobs @? '$[*] ? (exists (@.idempotency_key) || exists (@.unique))' then
        select t.twins, t.conflicts into v_twins, v_conflicts
        from tidemill.take_holds(p_project_id, p_jobs, v_ids, v_unfit, v_now) as t;
        v_known := array(
            select case when s.run_at is null or s.status not in ('scheduled', 'queued') then s.status when s.run_at > v_now then 'scheduled' else 'queued' end
            from unnest(v_twins) with ordinality as t (id, ord) left join tidemill.job_states s on s.id = t.id order by t.ord);
    end if;
    if p_jobs @? '$[*] ? (exists (@.depends_on) || exists (@.batch_id))' then
        v_family := tidemill.take_family(p_project_id, p_jobs, v_ids, v_twins, v_unfit || v_conflicts);
        v_pending := v_family.pending;
        v_fates := v_family.fates;
        v_strangers := v_family.faults;
    end if;
    if v_unfit <> '{}' or v_conflicts <> '{}' or v_strangers is not null then
        select r.fields, r.messages into v_fields, v_messages
        from tidemill.job_refusals(p_project_id, p_jobs, v_ids, v_twins, v_conflicts, v_strangers) as r
        where array_remove(r.fields, null) <> '{}';
    end if;

    if v_fields is null or not p_atomic then
        with born as (
            insert into tidemill.jobs as j (
                id, project_id, queue_id, job_type, payload, schema_version, priority, phase, is_held, run_at, idempotency_key,
                unique_key, unique_window, unique_until, retry_policy_id, retry_policy, max_attempts_override, timeout_ms,
                concurrency_key, concurrency_limit, partition_key, weight, rate_class, sticky_worker, lane, headers, tags,
                principal_id, correlation_id, traceparent, tracestate, trace_id, retention_ms, created_at, updated_at,
                batch_id, on_parent_failure, pending_parents, final_reason, finalized_at, retention_until, scheduled_job_id, scheduled_for)
            select v_ids[r.ord], p_project_id, v_queue_ids[array_position(v_queues, coalesce(r.queue, 'default'))],
                   r.job_type, u.body, r.schema_version, coalesce(r.priority, 0::smallint),
                   case when v_fates[r.ord] = 'cancel' then 'cancelled'
                        when r.hold or v_fates[r.ord] = 'hold' or v_pending[r.ord] > 0 then 'waiting'
                        else 'moving' end::tidemill.job_phase,
                   coalesce(r.hold, false) or v_fates[r.ord] is not distinct from 'hold',
                   greatest(v_now, case when r.run_at is not null then tidemill.instant(r.run_at)
                                        when r.delay_ms is not null then v_now + make_interval(secs => r.delay_ms / 1000.0) end),
                   r.idempotency_key,
                   case when u.hold_window is not null then tidemill.unique_key(r.job_type, u.body, r."unique" -> 'by') end,
                   u.hold_window,
                   case when u.hold_window = 'ttl' then v_now + make_interval(secs => (r."unique" ->> 'ttl_ms')::double precision / 1000) end,
                   case when jsonb_typeof(r.retry_policy) = 'string' then v_policy_ids[array_position(v_policies, r.retry_policy #>> '{}')] end,
                   case when jsonb_typeof(r.retry_policy) = 'object' then r.retry_policy end, r.max_attempts, r.timeout_ms,
                   case when jsonb_typeof(r.concurrency) = 'object'
                        then coalesce(r.concurrency ->> 'key', r.payload ->> (r.concurrency ->> 'by')) end,
                   case when jsonb_typeof(r.concurrency) = 'object' then (r.concurrency ->> 'limit')::integer end,
                   r.partition_key, coalesce(r.weight, 1), r.rate_class, r.sticky_worker,
                   case when r.concurrency is null and r.partition_key is null and r.rate_class is null and r.sticky_worker is null
                             and not (r.job_type = any(v_limited)) then 0
                        else tidemill.lane_of(r.job_type, case when jsonb_typeof(r.concurrency) = 'object' then (r.concurrency ->> 'limit')::integer end,
                            case when jsonb_typeof(r.concurrency) = 'object'
                                 then coalesce(r.concurrency ->> 'key', r.payload ->> (r.concurrency ->> 'by')) end,
                            r.partition_key, r.rate_class, r.sticky_worker) end,
                   r.headers,
                   case when cardinality(r.tags) > 0 then r.tags end,
                   left(coalesce(r.payload ->> 'principal_id', r.payload ->> 'principal', r.payload ->> 'user_id'), 255),
                   left(coalesce(r.payload ->> 'correlation_id', r.payload ->> 'request_id'), 255),
                   r.traceparent, r.tracestate, substr(r.traceparent, 4, 32), r.retention_ms,
                   v_now + make_interval(secs => (r.ord - 1) / 4096000.0), v_now,
                   r.batch_id, r.on_parent_failure, coalesce(v_pending[r.ord], 0),
                   case when v_fates[r.ord] = 'cancel' then 'parent_failed' end, case when v_fates[r.ord] = 'cancel' then v_now end,
                   case when v_fates[r.ord] = 'cancel' then v_now + make_interval(secs => coalesce(r.retention_ms, (
                       select q.retention_cancelled_ms from tidemill.queues q
                       where q.id = v_queue_ids[array_position(v_queues, coalesce(r.queue, 'default'))])) / 1000.0) end,
                   r.scheduled_job_id, r.scheduled_for
            from rows from (jsonb_to_recordset(p_jobs) as (
                job_type text, queue text, payload jsonb, schema_version integer, priority smallint, run_at text, delay_ms bigint,
                hold boolean, idempotency_key text, "unique" jsonb, concurrency jsonb, retry_policy jsonb, max_attempts integer,
                timeout_ms bigint, partition_key text, weight integer, rate_class text, sticky_worker text, tags text[],
                headers jsonb, traceparent text, tracestate text, retention_ms bigint, on_parent_failure tidemill.parent_failure_rule, batch_id uuid,
                scheduled_job_id uuid, scheduled_for timestamptz
            )) with ordinality as r (
                job_type, queue, payload, schema_version, priority, run_at, delay_ms,
                hold, idempotency_key, "unique", concurrency, retry_policy, max_attempts,
                timeout_ms, partition_key, weight, rate_class, sticky_worker, tags,
                headers, traceparent, tracestate, retention_ms, on_parent_failure, batch_id, scheduled_job_id, scheduled_for, ord)
            cross join lateral (
                select case when jsonb_typeof(r."unique") = 'object'
                            then coalesce(r."unique" ->> 'window', 'running') end::tidemill.unique_window as hold_window,
                       -- a record cannot tell a payload of null from none
                       coalesce(r.payload, case when p_jobs -> (r.ord - 1)::integer ? 'payload' then 'null'::jsonb else '{}' end) as body) u
            -- a case, because the planner takes a bare `is null` for one row in two hundred
            where case when v_fields[r.ord] is null then v_twins[r.ord] is null else false end
            returning j.id, j.queue_id, j.lane, j.priority, j.run_at, j.phase, tidemill.job_traits(j) as traits, j.weight
        ), entered as (
            insert into tidemill.job_queue_entries (queue_id, lane, priority, run_at, job_id, traits, weight)
            select b.queue_id, b.lane, b.priority, b.run_at, b.id, b.traits, nullif(b.weight, 1)
            from born b where b.phase = 'moving'
        ), news as (
            -- fifty lanes in a row: more would be stored apart
            insert into tidemill.lane_news (queue_id, run_at, job_ids, run_ats, lanes, priorities)
            select n.queue_id, min(n.run_at), array_agg(n.id), array_agg(n.run_at), array_agg(n.lane), array_agg(n.priority)
            from (select f.*, (row_number() over (partition by f.queue_id) - 1) / 50 as part
                  from (select distinct on (b.queue_id, b.lane, b.priority) b.queue_id, b.id, b.run_at, b.lane, b.priority
                        from born b where b.lane <> 0 and b.phase = 'moving'
                        order by b.queue_id, b.lane, b.priority, b.run_at) f) n
            group by n.queue_id, n.part
        )
        select array_agg(b.id order by b.id), array_agg(case b.phase when 'cancelled' then 'cancelled' when 'waiting' then 'pending'
                   when 'moving' then case when b.run_at > v_now then 'scheduled' else 'queued' end end::tidemill.job_status order by b.id),
               array_agg(distinct b.queue_id) filter (where b.phase = 'moving' and b.run_at <= v_now)
        into v_born, v_states, v_due
        from born b;
    end if;

    if v_born is not null and exists (select 1 from tidemill.quarantine x where x.project_id = p_project_id and x.is_quarantined) then
        v_states := tidemill.set_aside_born(p_project_id, v_born, v_states, v_now);
    end if;
    if v_is_new_level and v_born is not null then
        insert into tidemill.queue_levels (queue_id, priority)
        select distinct j.queue_id, j.priority
        from unnest(v_born) as b (id)
        cross join lateral (select j.queue_id, j.priority from tidemill.jobs j where j.id = b.id limit 1) j
        where not exists (select 1 from tidemill.queue_levels l where l.queue_id = j.queue_id and l.priority = j.priority);
    end if;
    if v_due is not null and exists (select 1 from tidemill.queue_sleepers s where s.queue_id = any(v_due)) then
        perform tidemill.ring_sleepers(v_due);
    end if;
    if v_twins is not null and not p_atomic then
        delete from tidemill.unique_holds h
        where h.job_id = any(v_ids) and (select j.id from tidemill.jobs j where j.id = h.job_id) is null;
    end if;
    if v_family is not null then
        perform tidemill.join_family(v_family.edge_children, v_family.edge_parents, v_family.edge_settled, v_ids, v_now);
    end if;

    if v_twins is null and v_fields is null then
        return query select (u.ord - 1)::integer, u.id, u.state, false, null::text, null::text, null::text
        from unnest(v_ids, v_states) with ordinality as u (id, state, ord);
    else
        return query select (u.ord - 1)::integer,
            case when u.twin is not null then u.twin when u.id = any(v_born) then u.id end,
            coalesce(u.known, v_states[array_position(v_born, coalesce(u.twin, u.id))]),
            u.twin is not null and u.field is null,
            case when u.field = 'idempotency_key' then 'idempotency_conflict' when u.field is not null then 'validation_error' end,
            u.field, u.message
        from unnest(v_ids, v_twins, v_known, v_fields, v_messages) with ordinality as u (id, twin, known, field, message, ord);
    end if;
end $$;

-- What the news of a queue say is written to its lanes; what has come due or is due for another look is ready. Returns the partitions of lanes that are
-- ready now, and the limits that have places again, whose lanes are the caller's to look at. At most 2,000 rows of news with 2,000 limits, and 500 looks.
-- Only for claims (which bring their settings of the planner along), under the queue's lock. Locks: news (skip locked), lanes.
create or replace function tidemill.hear_news(p_queue_id uuid, p_limit integer, p_now timestamptz, out woken text[], out freed bigint[])
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
            from (select m.id, sum(coalesce(cardinality(m.limit_keys), cardinality(m.lanes), 0)) over (order by m.id) as upto
                  from (select i.id, i.limit_keys, i.lanes from tidemill.lane_news i where i.queue_id = p_queue_id
                        order by i.id limit 2000 for update skip locked) m) h
            where h.upto <= 2000))
        returning n.job_id, n.run_at, n.limit_key, n.limit_keys, n.lane, n.priority, n.run_ats, n.lanes, n.priorities
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
