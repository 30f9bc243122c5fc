-- The one way in. The API, the Python helpers and any application's own transaction create jobs through these functions.

-- A 60-bit clock of 1/4096 ms steps: the time and sub-millisecond fields of a UUIDv7 (RFC 9562 §6.2, method 3).
create function tidemill.uuid7_ticks(at timestamptz) returns bigint
language sql stable parallel safe
return floor(extract(epoch from at) * 4096000)::bigint;

-- A UUIDv7 for a tick; 62 random bits. Ids of rising ticks sort in that order. A call that makes many ids at different ticks
-- may share one salt: random bits are dear where the server has no OpenSSL (it opens /dev/urandom for each).
create function tidemill.uuid7(ticks bigint, salt uuid default gen_random_uuid()) returns uuid
language sql volatile parallel safe
return (lpad(to_hex(((ticks >> 12) << 16) | 28672 | (ticks & 4095)), 16, '0') || right(salt::text, 17))::uuid;

-- An instant that says its offset; anything else is refused rather than read in the session's zone.
create function tidemill.instant(given text) returns timestamptz
language plpgsql stable as $$
begin
    if given !~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$' then
        raise exception 'run_at needs an offset' using errcode = 'invalid_datetime_format';
    end if;
    return given::timestamptz;
end $$;

-- What a unique key means: the job type and the chosen payload fields as canonical JSON (jsonb: keys sorted, numbers exact).
create function tidemill.unique_key(job_type text, payload jsonb, by_fields jsonb) returns bytea
language sql immutable parallel safe
return sha256(convert_to(job_type || e'\n' || case
    when by_fields is null or jsonb_typeof(by_fields) <> 'array' then payload
    else (select coalesce(jsonb_object_agg(f, payload -> f), '{}') from jsonb_array_elements_text(by_fields) as f)
end::text, 'UTF8'));

-- Positions (from 0) of jobs that name a queue or policy that is not there: they must not take a key.
create function tidemill.unfit_jobs(p_project_id uuid, p_jobs jsonb) returns integer[]
language sql stable
return array(
    select (e.ord - 1)::integer
    from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
    left join tidemill.queues q on q.project_id = p_project_id and q.name = coalesce(e.job ->> 'queue', 'default')
    left join tidemill.retry_policies p on p.project_id = p_project_id and p.name = e.job ->> 'retry_policy'
    where q.id is null or q.is_closed or (jsonb_typeof(e.job -> 'retry_policy') = 'string' and p.id is null));

-- The lane of a job with gates: jobs in one lane pass or fail the same ones. Never 0.
create function tidemill.lane_of(job_type text, concurrency_limit integer, concurrency_key text, partition_key text, rate_class text, sticky_worker text)
returns bigint
language sql immutable parallel safe
return greatest(1, hashtextextended(concat_ws(e'\x1f', job_type, coalesce(concurrency_limit::text, '-'), coalesce('=' || concurrency_key, '-'),
    coalesce('=' || partition_key, '-'), coalesce('=' || rate_class, '-'), coalesce('=' || sticky_worker, '-')), 8710) & 9223372036854775807);

-- Locks those of the unique keys that are there, all at once or none: whoever frees keys in several statements of one transaction
-- (acks, then a claim that begins jobs; a parent's end, then its children's) can follow no order, so an enqueue never waits for one
-- key while it holds another. After twenty tries it waits in key order like everybody else.
create function tidemill.lock_keys(p_project_id uuid, p_keys bytea[]) returns void
language plpgsql as $$
declare
    v_busy bytea[];
begin
    for v_try in 1..20 loop
        begin
            with free as materialized (
                select u.key from tidemill.unique_holds u
                where u.project_id = p_project_id and u.kind = 'unique' and u.key = any(p_keys)
                order by u.key for update skip locked)
            select array_agg(h.key) into v_busy
            from tidemill.unique_holds h
            where h.project_id = p_project_id and h.kind = 'unique' and h.key = any(p_keys) and h.key not in (select f.key from free f);
            exit when v_busy is null;
            raise exception 'busy' using errcode = 'TM000';
        exception when sqlstate 'TM000' then
            null;  -- the locks of the block are let go
        end;
        begin
            perform 1 from tidemill.unique_holds h
            where h.project_id = p_project_id and h.kind = 'unique' and h.key = v_busy[1] for update;
            raise exception 'waited' using errcode = 'TM000';
        exception when sqlstate 'TM000' then
            null;
        end;
    end loop;
end $$;

-- Takes the holds that keyed jobs ask for. Returns, by position, the job that answers instead of a new one (null: create it),
-- and null positions' holds point to p_ids. 'conflicts' lists positions whose idempotency key belongs to another request.
-- Locks holds in (kind, key) order, so that two bulk calls with the keys in opposite order cannot deadlock.
create function tidemill.take_holds(p_project_id uuid, p_jobs jsonb, p_ids uuid[], p_skip integer[], p_now timestamptz,
    out twins uuid[], out conflicts integer[])
language plpgsql as $$
#variable_conflict use_column
declare
    v_positions integer[];
    v_keys bytea[];
    v_ends timestamptz[];
begin
    twins := array_fill(null::uuid, array[cardinality(p_ids)]);
    conflicts := '{}';

    with wanted as materialized (
        select e.ord::integer as pos, sha256(convert_to(e.job ->> 'idempotency_key', 'UTF8')) as key,
               sha256(convert_to((e.job - 'idempotency_key' - 'traceparent' - 'tracestate')::text, 'UTF8')) as request_hash
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        where e.job ->> 'idempotency_key' is not null and not (e.ord - 1 = any(p_skip))
    ), first as (
        select distinct on (key) key, pos, request_hash from wanted order by key, pos
    ), taken as (
        insert into tidemill.unique_holds as h (project_id, kind, key, job_id, request_hash)
        select p_project_id, 'idempotency', key, p_ids[pos], request_hash from first order by key
        on conflict (project_id, kind, key) do update set job_id = h.job_id
        returning h.key, h.job_id, h.request_hash
    ), resolved as (
        select w.pos, t.job_id, t.request_hash = w.request_hash as same
        from wanted w join taken t using (key)
    )
    select array(select case when r.same and r.job_id <> p_ids[i] then r.job_id end
                 from generate_subscripts(p_ids, 1) as i left join resolved r on r.pos = i order by i),
           array(select r.pos - 1 from resolved r where not r.same order by r.pos)
    into twins, conflicts;

    select array_agg(w.pos), array_agg(w.key), array_agg(w.expires_at) into v_positions, v_keys, v_ends
    from (
        select e.ord::integer as pos,
               tidemill.unique_key(e.job ->> 'job_type', coalesce(e.job -> 'payload', '{}'), e.job -> 'unique' -> 'by') as key,
               case when e.job -> 'unique' ->> 'window' = 'ttl'
                    then p_now + make_interval(secs => (e.job -> 'unique' ->> 'ttl_ms')::double precision / 1000) end as expires_at
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        where jsonb_typeof(e.job -> 'unique') = 'object' and not (e.ord - 1 = any(p_skip))
          and twins[e.ord] is null and not (e.ord - 1 = any(conflicts))
    ) w;
    if cardinality(v_keys) > 1 then
        perform tidemill.lock_keys(p_project_id, v_keys);
    end if;

    with wanted as materialized (
        select w.pos, w.key, w.expires_at from unnest(v_positions, v_keys, v_ends) as w (pos, key, expires_at)
    ), first as (
        select distinct on (key) key, pos, expires_at from wanted order by key, pos
    ), taken as (
        insert into tidemill.unique_holds as h (project_id, kind, key, job_id, expires_at)
        select p_project_id, 'unique', key, p_ids[pos], expires_at from first order by key
        on conflict (project_id, kind, key) do update set
            job_id = case when h.expires_at <= p_now then excluded.job_id else h.job_id end,
            expires_at = case when h.expires_at <= p_now then excluded.expires_at else h.expires_at end
        returning h.key, h.job_id
    ), resolved as (
        select w.pos, t.job_id from wanted w join taken t using (key)
    )
    select array(select coalesce(twins[i], case when r.job_id <> p_ids[i] then r.job_id end)
                 from generate_subscripts(p_ids, 1) as i left join resolved r on r.pos = i order by i)
    into twins;

    -- An idempotency key that was new while its job was not answers with the holder of the unique key from now on,
    -- also where another job of this call was to answer with that job.
    update tidemill.unique_holds h set job_id = twins[array_position(p_ids, h.job_id)]
    where h.kind = 'idempotency' and h.job_id = any(array(
        select p_ids[i] from generate_subscripts(p_ids, 1) as i where twins[i] is not null and twins[i] <> p_ids[i]));
    twins := array(
        select coalesce(f.twin, t.twin)
        from unnest(twins) with ordinality as t (twin, ord)
        left join (select p.id, twins[p.ord] as twin from unnest(p_ids) with ordinality as p (id, ord)) f on f.id = t.twin
        order by t.ord);
end $$;

-- Why jobs are refused: field and message by position, null where nothing is wrong. Only called when something may be.
create function tidemill.job_refusals(p_project_id uuid, p_jobs jsonb, p_ids uuid[], p_twins uuid[], p_conflicts integer[], p_strangers text[],
    out fields text[], out messages text[])
language sql stable as $$
    with checked as (
        select e.ord, e.job, q.id is null as is_unknown,
               case when q.id is null or q.is_closed then 'queue'
                    when jsonb_typeof(e.job -> 'retry_policy') = 'string' and p.id is null then 'retry_policy'
                    when (e.ord - 1)::integer = any(p_conflicts) then 'idempotency_key'
                    when p_strangers[e.ord] is not null then split_part(p_strangers[e.ord], ': ', 1)
                    when p_strangers[array_position(p_ids, p_twins[e.ord])] is not null then 'unique' end as field
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        left join tidemill.queues q on q.project_id = p_project_id and q.name = coalesce(e.job ->> 'queue', 'default')
        left join tidemill.retry_policies p on p.project_id = p_project_id and p.name = e.job ->> 'retry_policy'
    )
    select array_agg(c.field order by c.ord),
           array_agg(case c.field
               when 'queue' then case when c.is_unknown
                   then format('queue %s does not exist in this project: create it or use an existing one',
                               coalesce(quote_literal(left(c.job ->> 'queue', 200)), '''default'''))
                   else format('queue %L is closed to new jobs: it is being removed', coalesce(c.job ->> 'queue', 'default')) end
               when 'retry_policy' then format('retry policy %L does not exist in this project', left(c.job ->> 'retry_policy', 200))
               when 'idempotency_key' then 'this idempotency key belongs to another request: use a new key, or send the first request unchanged'
               when 'unique' then 'the job of this call that takes the same key is refused'
               else substr(p_strangers[c.ord], length(c.field) + 3) end order by c.ord)
    from checked c
$$;

-- The fields of a job that needs nothing but a row and an entry.
create function tidemill.plain_fields() returns text[]
language sql immutable parallel safe
return array['job_type', 'queue', 'payload', 'schema_version', 'priority', 'run_at', 'delay_ms', 'max_attempts', 'timeout_ms', 'headers',
    'traceparent', 'tracestate'];

-- Rings up to four of the workers that sleep on these queues, and no longer counts them as asleep.
create function tidemill.ring_sleepers(p_queue_ids uuid[]) returns void
language plpgsql as $$
declare
    v_rung uuid[];
begin
    if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
        with rung as (
            delete from tidemill.queue_sleepers s
            where (s.queue_id, s.worker_id) in (
                select w.queue_id, w.worker_id from tidemill.queue_sleepers w where w.queue_id = any(p_queue_ids) limit 4 for update skip locked)
            returning s.worker_id
        )
        select array_agg(r.worker_id) into v_rung from rung r;
    else
        -- Under an older snapshot (an application's REPEATABLE READ) a sleeper that woke meanwhile cannot be deleted without a
        -- serialization failure; it is rung all the same.
        v_rung := array(select w.worker_id from tidemill.queue_sleepers w where w.queue_id = any(p_queue_ids) limit 4);
    end if;
    perform pg_notify('tidemill_' || replace(r.id::text, '-', ''), '') from unnest(v_rung) as r (id);
end $$;

-- Creates jobs. One row per given job, in order: the new job, or the one that answers for its key, or what is wrong with it.
-- p_atomic: with any faulty job nothing is stored. Shapes and lengths are the callers' to check first; what reaches a
-- CHECK here raises. p_now: null = the database clock at this moment (not at the start of the transaction).
-- Speed: one pass over the JSON; whatever few jobs need (keys, families, refusals, sleepers) is a statement of its
-- own that the others never start, because an executor pays for every table that a plan names, used or not.
create function tidemill.enqueue_results(p_project_id uuid, p_jobs jsonb, p_atomic boolean, p_now timestamptz default null)
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
            insert into tidemill.lane_news (queue_id, job_id, run_at)
            select distinct on (b.queue_id, b.lane, b.priority) b.queue_id, b.id, b.run_at
            from born b where b.lane <> 0 and b.phase = 'moving'
            order by b.queue_id, b.lane, b.priority, b.run_at
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

create function tidemill.job_fields() returns text[]
language sql immutable parallel safe
return array['job_type', 'queue', 'payload', 'schema_version', 'priority', 'run_at', 'delay_ms', 'hold', 'idempotency_key', 'unique',
    'concurrency', 'retry_policy', 'max_attempts', 'timeout_ms', 'partition_key', 'weight', 'rate_class', 'sticky_worker', 'tags',
    'headers', 'traceparent', 'tracestate', 'retention_ms', 'ref', 'depends_on', 'on_parent_failure', 'batch_id'];

-- A whole number within bounds; numbers of any size and form compare without a fault.
create function tidemill.is_whole(given jsonb, low numeric, high numeric) returns boolean
language sql immutable parallel safe
return case when jsonb_typeof(given) = 'number'
            then (given #>> '{}')::numeric between low and high and (given #>> '{}')::numeric = trunc((given #>> '{}')::numeric)
            else false end;

-- What is wrong with each job's shape, for the error text of tidemill.enqueue. Bounds as in API.md and domain/limits.py.
create function tidemill.job_faults(jobs jsonb) returns table (pos integer, field text, message text)
language sql stable
begin atomic
    select (e.ord - 1)::integer, r.field,
           case r.kind
               when 'name' then 'must be 1 to 200 characters of [A-Za-z0-9][A-Za-z0-9_.:/-]*'
               when 'instant' then 'must be RFC 3339 with Z or an offset, such as 2027-01-31T09:00:00Z, and not beside delay_ms'
               when 'whole' then format('must be a whole number from %s to %s', r.low, r.high)
               when 'text' then format('must be text of %s to %s characters', r.low, r.high)
               when 'tags' then 'must be a list of at most 20 texts of 1 to 64 characters'
               when 'headers' then 'must be an object of at most 32 texts, 8192 bytes in all'
               when 'payload' then 'must be at most 262144 bytes of JSON'
               when 'policy' then 'must be a policy''s name, or an object of strategy (fixed, linear or exponential), base_delay_ms and max_delay_ms (0 to 2678400000), multiplier (1 to 100), max_attempts (1 to 1000) and jitter'
               when 'unique' then 'must be an object of by (1 to 100 payload fields), window (pending, running or ttl) and, with window ttl only, ttl_ms (1 to 315360000000)'
               when 'concurrency' then 'must be an object of limit (1 to 1000000) and key or by (text of 1 to 255 characters, not both)'
               else format('must be %s', r.kind) end
    from jsonb_array_elements(case jsonb_typeof(jobs) when 'array' then jobs else '[]' end) with ordinality as e (job, ord)
    cross join lateral (
        select k.key, k.value from jsonb_each(case jsonb_typeof(e.job) when 'object' then e.job else '{}' end) as k (key, value)
        union all
        select 'job_type', 'null' where not e.job ? 'job_type') as v (key, given)
    join (values
        ('job_type', 'name', 1, 200), ('queue', 'name', 1, 200), ('rate_class', 'name', 1, 200),
        ('priority', 'whole', -32768, 32767), ('schema_version', 'whole', -2147483648, 2147483647),
        ('delay_ms', 'whole', 0, 315360000000), ('max_attempts', 'whole', 1, 1000), ('timeout_ms', 'whole', 1, 43200000),
        ('weight', 'whole', 1, 1000000), ('retention_ms', 'whole', 0, 315360000000), ('run_at', 'instant', 0, 0),
        ('idempotency_key', 'text', 1, 255), ('partition_key', 'text', 1, 255), ('sticky_worker', 'text', 1, 200),
        ('traceparent', 'text', 1, 255), ('tracestate', 'text', 1, 512), ('hold', 'boolean', 0, 0), ('payload', 'payload', 0, 262144),
        ('tags', 'tags', 0, 20), ('headers', 'headers', 0, 32), ('retry_policy', 'policy', 0, 0), ('unique', 'unique', 0, 0),
        ('concurrency', 'concurrency', 0, 0), ('depends_on', 'array', 0, 0), ('ref', 'text', 1, 200), ('on_parent_failure', 'text', 3, 6),
        ('batch_id', 'text', 36, 36)
    ) as r (field, kind, low, high) on r.field = v.key
    where case
        when jsonb_typeof(v.given) = 'null' then r.field = 'job_type'
        when r.kind = 'name' then jsonb_typeof(v.given) <> 'string' or v.given #>> '{}' !~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}$'
        when r.kind = 'text' then jsonb_typeof(v.given) <> 'string' or length(v.given #>> '{}') not between r.low and r.high
        when r.kind = 'whole' then not tidemill.is_whole(v.given, r.low, r.high)
        when r.kind = 'instant' then jsonb_typeof(v.given) <> 'string' or jsonb_typeof(e.job -> 'delay_ms') = 'number'
            or v.given #>> '{}' !~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$'
            or not pg_input_is_valid(v.given #>> '{}', 'timestamptz')
        when r.kind = 'payload' then octet_length(v.given::text) > r.high
        when r.kind = 'tags' then jsonb_typeof(v.given) <> 'array' or jsonb_array_length(v.given) > r.high or exists (
            select 1 from jsonb_array_elements(v.given) as t (tag)
            where jsonb_typeof(t.tag) <> 'string' or length(t.tag #>> '{}') not between 1 and 64)
        when r.kind = 'headers' then jsonb_typeof(v.given) <> 'object' or exists (
            select 1 from jsonb_each(v.given) as h (name, text)
            having count(*) > r.high or sum(octet_length(h.name) + octet_length(h.text #>> '{}')) > 8192
                or bool_or(jsonb_typeof(h.text) <> 'string'))
        when r.kind = 'policy' then jsonb_typeof(v.given) <> 'string' and not tidemill.is_retry_policy(v.given)
        when r.kind = 'unique' then jsonb_typeof(v.given) <> 'object' or v.given - array['by', 'window', 'ttl_ms'] <> '{}'
            or coalesce(v.given ->> 'window', 'running') not in ('pending', 'running', 'ttl')
            or (v.given ->> 'window' is not distinct from 'ttl') <> coalesce(tidemill.is_whole(v.given -> 'ttl_ms', 1, 315360000000), false)
            or (coalesce(jsonb_typeof(v.given -> 'ttl_ms'), 'null') <> 'null' and v.given ->> 'window' is distinct from 'ttl')
            or case coalesce(jsonb_typeof(v.given -> 'by'), 'null') when 'null' then false
                when 'array' then jsonb_array_length(v.given -> 'by') not between 1 and 100 or exists (
                    select 1 from jsonb_array_elements(v.given -> 'by') as b (name)
                    where jsonb_typeof(b.name) <> 'string' or length(b.name #>> '{}') not between 1 and 255)
                else true end
        when r.kind = 'concurrency' then jsonb_typeof(v.given) <> 'object' or v.given - array['limit', 'key', 'by'] <> '{}'
            or not coalesce(tidemill.is_whole(v.given -> 'limit', 1, 1000000), false)
            or (v.given ->> 'key' is not null and v.given ->> 'by' is not null) or exists (
                select 1 from jsonb_each(v.given - 'limit') as k (name, value)
                where jsonb_typeof(k.value) not in ('string', 'null') or length(k.value #>> '{}') not between 1 and 255)
        else jsonb_typeof(v.given) <> r.kind end
    order by 1, 2
    limit 1000;
end;
