-- One write less for each job of a busy limit, and news of many lanes in one row (docs/adr/0022).

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
    v_is_full boolean := false;
    v_is_all boolean;        -- the round has found as much as it wanted
    v_places tid[];
    v_away bigint[];         -- limits that another claim counts at the moment
    v_dues timestamptz[];    -- of the others, sorted by place: when their next job is due, and whether the round has filled their limit
    v_swept integer := 0;
    v_room integer := p_limit;
    v_max integer;
    v_rule tidemill.saturation_rule;
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
    v_others text[] := '{}';
    v_vain integer := 0;     -- rounds that brought nothing
    v_is_choosy boolean;     -- whether there may be ready lanes that are not for this worker
    v_woken text[];
    v_freed bigint[];        -- limits that have places again, and their lanes until the first round has chosen (tidemill.offer_freed)
    v_free_places tid[];
    v_free_parts text[];     -- each partition of these once, in order, and where its lanes begin (and, at the end, where the next one's would)
    v_free_from integer[];
    v_free_lanes bigint[];
    v_free_levels smallint[];
    v_free_dues timestamptz[];
    v_free_keys bigint[];
    v_free_limits integer[];
    v_free_spots tid[];
    v_free_naps boolean[];
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
    -- lanes whose limit has places again are offered in the first round as they stand
    if v_freed is not null then
        select v_woken || f.woken, f.parts, f.firsts, f.places, f.lanes, f.levels, f.dues, f.keys, f.limits, f.spots, f.naps
        into v_woken, v_free_parts, v_free_from, v_free_places, v_free_lanes, v_free_levels, v_free_dues, v_free_keys, v_free_limits, v_free_spots, v_free_naps
        from tidemill.offer_freed(p_queue_id, v_freed, p_job_types is null and not v_is_full, v_types, v_now) f;
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

    v_is_choosy := p_job_types is not null or v_others <> '{}';

    for v_round in 1..50 loop
        exit when v_room <= 0 or not exists (select 1 from tidemill.queue_partitions p where p.queue_id = p_queue_id and p.is_ready);

        -- whose turn it is, and how many each may take before the others' turns come. A claim that wants many gives each turn a handful, so that it need
        -- not touch as many lanes as it takes jobs: at most 8, and never more than a 64th of what it wants
        v_handful := greatest(1, least(8, v_room / 64));
        v_turns := ceil(v_room::numeric / v_handful)::integer;
        with parts as materialized (
            select p.partition_key, p.virtual_finish, p.weight
            from (select o.partition_key, o.virtual_finish, o.weight from tidemill.queue_partitions o
                  where o.queue_id = p_queue_id and o.is_ready
                  order by o.virtual_finish, o.partition_key limit case when v_is_choosy then 5000 else least(v_turns, 500) end) p
            -- partitions whose lanes are all for others take no turn from this worker, or they would stand in front of it as long as the others stay away
            where not v_is_choosy or p.partition_key = '' or p.partition_key = any(coalesce(v_free_parts, '{}'))
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
            -- Each partition's best lanes: those of the highest priority as many jobs as it may take, in even parts; those of the next what limits surely keep
            -- the former from giving. (If the former have less, the next round is the others'.)
            select c.*, least(c.per_lane, c.most - (c.nth - 1) * c.per_lane) as n
            from (
                select b.*, ((b.most + b.of_level - 1) / b.of_level)::integer as per_lane
                from (
                    select s.partition_key, s.turn, o.lane, o.priority, o.due_at, o.limit_key, o.concurrency_limit, o.special, o.place, o.spot, o.may_nap,
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
                            (select v_free_lanes[x], v_free_levels[x], v_free_dues[x], v_free_keys[x], v_free_limits[x], false, v_free_places[x], v_free_spots[x], v_free_naps[x]
                             from (select width_bucket(s.partition_key collate "C", v_free_parts) as pos offset 0) b
                             cross join lateral generate_series(v_free_from[b.pos], least(v_free_from[b.pos] + s.n, v_free_from[b.pos + 1]) - 1) as x
                             where v_free_parts[b.pos] = s.partition_key)
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
        if v_free_places is not null then  -- what was offered and not chosen is ready like any other
            select array_agg(f.place order by f.place), array_agg(f.due_at order by f.place) into v_places, v_dues
            from unnest(v_free_places, v_free_dues) as f (place, due_at);
            update tidemill.queue_lanes l
            set (due_at, is_ready, look_at, blocked_by, blocked_since) = (
                select h.due_at, true, h.due_at, null::text, null::timestamptz from (select v_dues[width_bucket(l.ctid, v_places)] as due_at offset 0) h)
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
            update tidemill.queue_lanes l
            set is_ready = false, blocked_by = 'concurrency_key', blocked_since = coalesce(l.blocked_since, v_now),
                look_at = v_now + case when l.limit_key = any(v_away) then interval '5 milliseconds' else interval '5 seconds' * (0.8 + 0.4 * random()) end
            where l.ctid = any(array(select v_stands[i] from generate_subscripts(v_lanes, 1) as i where v_keys[i] is not null and v_wants[i] = 0));
        end if;

        -- standing limits of a job type and rate classes; the sweeps of a claim set 5,000 lanes aside at most: the next one goes on
        if v_special then
            select s.wants, v_swept + s.is_swept::integer into v_wants, v_swept
            from tidemill.pass_special(v_queue.project_id, p_queue_id, v_types, v_most, v_rules, v_lanes, v_levels, v_stands, v_since, v_parts,
                                       v_swept < 5, v_now, v_wants) s;
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
                          and c.run_at >= w.since and c.run_at <= v_now
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
                       t.attempt_count + 1, t.fence + 1, t.priority, (t.traits | 128)::smallint, t.run_at, v_now,
                       case when p_start then v_now end, v_now + make_interval(secs => m.ms / 1000.0), m.ms, t.weight, t.lane,
                       v_keys[l.i], case when t.lane <> 0 then v_parts[l.i] end, (
                           select tidemill.type_key(v_queue.project_id, o.job_type) from tidemill.queue_lanes o
                           where cardinality(v_types) > 0 and o.ctid = v_stands[l.i] and o.job_type = any(v_types))
                from taken t
                cross join (select coalesce(p_lease_ms, v_queue.visibility_timeout_secs * 1000::bigint) as ms) m
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
        perform tidemill.leave_lanes(p_queue_id, v_lanes, v_levels, v_stands, v_since, v_parts, v_wants, case when v_is_all and v_limited then v_lefts end,
                                     v_naps, v_now);
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

    if v_clock is not null then
        insert into tidemill.queue_clocks as c (queue_id, virtual_time) values (p_queue_id, v_clock)
        on conflict (queue_id) do update set virtual_time = greatest(c.virtual_time, excluded.virtual_time);
    end if;
end $$;
