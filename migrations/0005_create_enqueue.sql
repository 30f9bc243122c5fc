-- The one way in. The API, the Python helpers and any application's own transaction create jobs through these functions.

-- A 60-bit clock of 1/4096 ms steps: the time and sub-millisecond fields of a UUIDv7 (RFC 9562 §6.2, method 3).
create function tidemill.uuid7_ticks(at timestamptz) returns bigint
language sql stable parallel safe
return floor(extract(epoch from at) * 4096000)::bigint;

-- A UUIDv7 for a tick; 62 random bits. Ids of rising ticks sort in that order.
create function tidemill.uuid7(ticks bigint) returns uuid
language sql volatile parallel safe
return (lpad(to_hex(ticks >> 12), 12, '0') || '7' || lpad(to_hex(ticks & 4095), 3, '0')
        || substr(gen_random_uuid()::text, 20))::uuid;

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

-- Takes the holds that keyed jobs ask for. Returns, by position, the job that answers instead of a new one (null: create it),
-- and null positions' holds point to p_ids. 'conflicts' lists positions whose idempotency key belongs to another request.
-- Locks holds in (kind, key) order, so that two bulk calls with the keys in opposite order cannot deadlock.
create function tidemill.take_holds(p_project_id uuid, p_jobs jsonb, p_ids uuid[], p_skip integer[], p_now timestamptz,
    out twins uuid[], out conflicts integer[])
language plpgsql as $$
#variable_conflict use_column
begin
    twins := array_fill(null::uuid, array[cardinality(p_ids)]);
    conflicts := '{}';

    with wanted as materialized (
        select e.ord::integer as pos, sha256(convert_to(e.job ->> 'idempotency_key', 'UTF8')) as key,
               sha256(convert_to((e.job - 'idempotency_key')::text, 'UTF8')) as request_hash
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

    with wanted as materialized (
        select e.ord::integer as pos,
               tidemill.unique_key(e.job ->> 'job_type', coalesce(e.job -> 'payload', '{}'), e.job -> 'unique' -> 'by') as key,
               case when e.job -> 'unique' ->> 'window' = 'ttl'
                    then p_now + make_interval(secs => (e.job -> 'unique' ->> 'ttl_ms')::double precision / 1000) end as expires_at
        from jsonb_array_elements(p_jobs) with ordinality as e (job, ord)
        where jsonb_typeof(e.job -> 'unique') = 'object' and not (e.ord - 1 = any(p_skip))
          and twins[e.ord] is null and not (e.ord - 1 = any(conflicts))
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

    -- An idempotency key that was new while its job was not answers with the holder of the unique key from now on.
    update tidemill.unique_holds h set job_id = twins[i]
    from generate_subscripts(p_ids, 1) as i
    where h.job_id = p_ids[i] and h.kind = 'idempotency' and twins[i] is not null;
end $$;

-- Creates jobs. One row per given job, in order: the new job, or the one that answers for its key, or what is wrong with it.
-- p_atomic: with any faulty job nothing is stored. Shapes and lengths are the callers' to check first; what reaches a
-- CHECK here raises. p_now: null = the database clock at this moment (not at the start of the transaction).
create function tidemill.enqueue_results(p_project_id uuid, p_jobs jsonb, p_atomic boolean, p_now timestamptz default null)
returns table ("index" integer, job_id uuid, state tidemill.job_status, deduplicated boolean, code text, field text, message text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ticks bigint := tidemill.uuid7_ticks(v_now);
    v_ids uuid[];
    v_twins uuid[];
    -- Under an older snapshot (an application's REPEATABLE READ) a sleeper that woke meanwhile cannot be deleted without a
    -- serialization failure; it is rung all the same.
    v_sees_latest boolean := current_setting('transaction_isolation') in ('read committed', 'read uncommitted');
    v_conflicts integer[] := '{}';
    v_family record;
    v_pending integer[];
    v_fates text[];
    v_strangers text[];
    v_limited text[] := array(select c.job_type from tidemill.concurrency_limits c where c.project_id = p_project_id and c.job_type is not null);
begin
    if jsonb_typeof(p_jobs) is distinct from 'array' then
        raise exception 'jobs must be a JSON array, not %', coalesce(jsonb_typeof(p_jobs), 'null') using errcode = 'TM422';
    end if;
    if jsonb_array_length(p_jobs) > 1000 then
        raise exception 'jobs holds % items; the limit for one call is 1000: send several calls', jsonb_array_length(p_jobs)
            using errcode = 'TM422';
    end if;
    v_ids := array(select tidemill.uuid7(v_ticks + i) from generate_series(0, jsonb_array_length(p_jobs) - 1) as i);

    if p_jobs @? '$[*] ? (exists (@.idempotency_key) || exists (@.unique))' then
        select t.twins, t.conflicts into v_twins, v_conflicts
        from tidemill.take_holds(p_project_id, p_jobs, v_ids, tidemill.unfit_jobs(p_project_id, p_jobs), v_now) as t;
    end if;

    if p_jobs @? '$[*] ? (exists (@.depends_on) || exists (@.batch_id))' then
        v_family := tidemill.take_family(p_project_id, p_jobs, v_ids, v_twins);
        v_pending := v_family.pending;
        v_fates := v_family.fates;
        v_strangers := v_family.faults;
    end if;

    return query
    with given as materialized (
        select r.*, v_ids[r.ord] as id, v_twins[r.ord] as twin,
               greatest(v_now, coalesce(case when r.run_at is not null then tidemill.instant(r.run_at) end, v_now + make_interval(secs => r.delay_ms::double precision / 1000))) as due_at,
               coalesce(r.priority, 0::smallint) as level,
               coalesce(r.payload, '{}'::jsonb) as body
        from rows from (jsonb_to_recordset(p_jobs) as (
            job_type text, queue text, payload jsonb, schema_version integer, priority smallint, run_at text, delay_ms bigint,
            hold boolean, idempotency_key text, "unique" jsonb, concurrency jsonb, retry_policy jsonb, max_attempts integer,
            timeout_ms bigint, partition_key text, weight integer, rate_class text, sticky_worker text, tags text[],
            headers jsonb, traceparent text, tracestate text, retention_ms bigint, on_parent_failure tidemill.parent_failure_rule, batch_id uuid
        )) with ordinality as r (
            job_type, queue, payload, schema_version, priority, run_at, delay_ms,
            hold, idempotency_key, "unique", concurrency, retry_policy, max_attempts,
            timeout_ms, partition_key, weight, rate_class, sticky_worker, tags,
            headers, traceparent, tracestate, retention_ms, on_parent_failure, batch_id, ord)
    ), checked as materialized (
        select g.*, q.id as queue_id, p.id as policy_id, q.retention_cancelled_ms,
               coalesce(v_pending[g.ord], 0) as parents, coalesce(v_fates[g.ord], '') as fate,
               case when q.id is null then 'queue' when q.is_closed then 'queue'
                    when jsonb_typeof(g.retry_policy) = 'string' and p.id is null then 'retry_policy'
                    when (g.ord - 1)::integer = any(v_conflicts) then 'idempotency_key'
                    when v_strangers[g.ord] is not null then split_part(v_strangers[g.ord], ': ', 1)
                    when v_strangers is not null and g.twin = any(v_ids)
                         and v_strangers[array_position(v_ids, g.twin)] is not null then 'unique' end as bad_field,
               case when jsonb_typeof(g."unique") = 'object' then coalesce(g."unique" ->> 'window', 'running') end::tidemill.unique_window as hold_window
        from given g
        left join tidemill.queues q on q.project_id = p_project_id and q.name = coalesce(g.queue, 'default')
        left join tidemill.retry_policies p on p.project_id = p_project_id and jsonb_typeof(g.retry_policy) = 'string'
            and p.name = g.retry_policy #>> '{}'
    ), fit as materialized (
        select c.*, coalesce(c.hold, false) or c.fate = 'hold' as held, coalesce(c.hold, false) or c.fate <> '' or c.parents > 0 as waits,
               (case c.hold_window when 'running' then 1 when 'pending' then 2 when 'ttl' then 4 else 0 end
                | case when c.batch_id is not null then 8 else 0 end
                | case when c.retention_ms is not null then 16 else 0 end
                | case when c.concurrency is not null or c.rate_class is not null or c.partition_key is not null
                         or c.sticky_worker is not null then 32 else 0 end)::smallint as traits,
               case when jsonb_typeof(c.concurrency) = 'object' then (c.concurrency ->> 'limit')::integer end as conc_limit,
               case when jsonb_typeof(c.concurrency) = 'object'
                    then coalesce(c.concurrency ->> 'key', c.body ->> (c.concurrency ->> 'by')) end as conc_key,
               case when c.concurrency is null and c.rate_class is null and c.partition_key is null and c.sticky_worker is null
                         and not (c.job_type = any(v_limited)) then 0
                    else tidemill.lane_of(c.job_type, (c.concurrency ->> 'limit')::integer,
                        coalesce(c.concurrency ->> 'key', c.body ->> (c.concurrency ->> 'by')), c.partition_key, c.rate_class, c.sticky_worker)
               end as lane
        from checked c
        where c.bad_field is null and c.twin is null
          and (not p_atomic or not exists (select 1 from checked b where b.bad_field is not null))
    ), born as (
        insert into tidemill.jobs (
            id, project_id, queue_id, job_type, payload, schema_version, priority, phase, is_held, run_at, idempotency_key,
            unique_key, unique_window, unique_until, retry_policy_id, retry_policy, max_attempts_override, timeout_ms,
            concurrency_key, concurrency_limit, partition_key, weight, rate_class, sticky_worker, lane, headers, tags,
            principal_id, correlation_id, traceparent, tracestate, trace_id, retention_ms, created_at, updated_at,
            batch_id, on_parent_failure, pending_parents, final_reason, finalized_at, retention_until)
        select f.id, p_project_id, f.queue_id, f.job_type, f.body, f.schema_version, f.level,
               case when f.fate = 'cancel' then 'cancelled' when f.waits then 'waiting' else 'moving' end::tidemill.job_phase, f.held, f.due_at, f.idempotency_key,
               case when f.hold_window is not null then tidemill.unique_key(f.job_type, f.body, f."unique" -> 'by') end, f.hold_window,
               case when f.hold_window = 'ttl' then v_now + make_interval(secs => (f."unique" ->> 'ttl_ms')::double precision / 1000) end,
               f.policy_id, case when jsonb_typeof(f.retry_policy) = 'object' then f.retry_policy end, f.max_attempts, f.timeout_ms,
               f.conc_key, f.conc_limit, f.partition_key, coalesce(f.weight, 1), f.rate_class, f.sticky_worker, f.lane, f.headers,
               case when cardinality(f.tags) > 0 then f.tags end,
               left(coalesce(f.body ->> 'principal_id', f.body ->> 'principal', f.body ->> 'user_id'), 255),
               left(coalesce(f.body ->> 'correlation_id', f.body ->> 'request_id'), 255),
               f.traceparent, f.tracestate, substr(f.traceparent, 4, 32), f.retention_ms,
               v_now + make_interval(secs => (f.ord - 1) / 4096000.0), v_now,
               f.batch_id, f.on_parent_failure, f.parents,
               case when f.fate = 'cancel' then 'parent_failed' end, case when f.fate = 'cancel' then v_now end,
               case when f.fate = 'cancel' then v_now + make_interval(secs => coalesce(f.retention_ms, f.retention_cancelled_ms) / 1000.0) end
        from fit f
    ), entered as (
        insert into tidemill.job_queue_entries (
            queue_id, lane, priority, run_at, job_id, traits, weight)
        select f.queue_id, f.lane, f.level, f.due_at, f.id, f.traits, nullif(f.weight, 1)
        from fit f where not f.waits
    ), levels as (
        insert into tidemill.queue_levels (queue_id, priority)
        select distinct f.queue_id, f.level from fit f
        where f.lane = 0 and not exists (select 1 from tidemill.queue_levels l where l.queue_id = f.queue_id and l.priority = f.level)
        on conflict do nothing
    ), woken as (
        delete from tidemill.queue_sleepers s
        where v_sees_latest and (s.queue_id, s.worker_id) in (
            select w.queue_id, w.worker_id from tidemill.queue_sleepers w
            where w.queue_id in (select f.queue_id from fit f where not f.waits and f.due_at <= v_now)
            limit 4 for update skip locked)
        returning s.worker_id
    ), rung as (
        select w.worker_id from woken w
        union all
        (select w.worker_id from tidemill.queue_sleepers w
         where not v_sees_latest and w.queue_id in (select f.queue_id from fit f where not f.waits and f.due_at <= v_now)
         limit 4)
    )
    select (c.ord - 1)::integer,
           case when f.id is not null then f.id else c.twin end,
           case when f.id is null and c.twin is null then null
                when f.id is null then coalesce(
                    (select t.status from tidemill.job_states t where t.id = c.twin),
                    (select case when s.fate = 'cancel' then 'cancelled' when s.waits then 'pending' when s.due_at > v_now then 'scheduled' else 'queued' end::tidemill.job_status
                     from fit s where s.id = c.twin))
                when f.fate = 'cancel' then 'cancelled' when f.waits then 'pending' when f.due_at > v_now then 'scheduled' else 'queued' end::tidemill.job_status,
           c.twin is not null and c.bad_field is null,
           case c.bad_field when 'idempotency_key' then 'idempotency_conflict' when null then null
                else case when c.bad_field is not null then 'validation_error' end end,
           c.bad_field,
           case c.bad_field
                when 'queue' then case when c.queue_id is null
                    then format('queue %s does not exist in this project: create it or use an existing one', coalesce(quote_literal(left(c.queue, 200)), '''default'''))
                    else format('queue %L is closed to new jobs: it is being removed', c.queue) end
                when 'retry_policy' then format('retry policy %L does not exist in this project', left(c.retry_policy #>> '{}', 200))
                when 'idempotency_key' then 'this idempotency key belongs to another request: use a new key, or send the first request unchanged'
                when 'unique' then 'the job of this call that takes the same key is refused'
                else substr(v_strangers[c.ord], length(c.bad_field) + 3) end
    from checked c
    left join fit f on f.ord = c.ord
    where (select count(pg_notify('tidemill_' || replace(r.worker_id::text, '-', ''), '')) from rung r) >= 0
    order by c.ord;

    if v_twins is not null and not p_atomic then
        delete from tidemill.unique_holds h
        where h.job_id = any(v_ids) and not exists (select 1 from tidemill.jobs j where j.id = h.job_id);
    end if;
    if v_family is not null then
        perform tidemill.join_family(v_family.edge_children, v_family.edge_parents, v_family.edge_settled, v_ids, v_now);
    end if;
end $$;

create function tidemill.job_fields() returns text[]
language sql immutable parallel safe
return array['job_type', 'queue', 'payload', 'schema_version', 'priority', 'run_at', 'delay_ms', 'hold', 'idempotency_key', 'unique',
    'concurrency', 'retry_policy', 'max_attempts', 'timeout_ms', 'partition_key', 'weight', 'rate_class', 'sticky_worker', 'tags',
    'headers', 'traceparent', 'tracestate', 'retention_ms', 'ref', 'depends_on', 'on_parent_failure', 'batch_id'];

-- For applications: the same job objects and rules as POST /v1/jobs/bulk with "atomic": true, inside the caller's transaction.
-- A fault raises SQLSTATE TM422 (TM409 for an idempotency key of another request) naming the job, the field and the bound.
create function tidemill.enqueue(project_id uuid, jobs jsonb)
returns table ("index" integer, job_id uuid, state tidemill.job_status, deduplicated boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_fault record;
    v_row record;
begin
    for v_fault in
        select e.ord - 1 as pos, k.name
        from jsonb_array_elements(case jsonb_typeof(jobs) when 'array' then jobs else '[]' end) with ordinality as e (job, ord)
        cross join lateral jsonb_object_keys(
            case jsonb_typeof(e.job) when 'object' then e.job - tidemill.job_fields() else '{"(not an object)": null}' end) as k (name)
        limit 1
    loop
        raise exception 'jobs[%].%: no such field', v_fault.pos, left(v_fault.name, 100)
            using errcode = 'TM422', hint = 'fields: ' || array_to_string(tidemill.job_fields(), ', ');
    end loop;
    for v_row in select * from tidemill.enqueue_results(project_id, jobs, true) loop
        if v_row.code is not null then
            raise exception 'jobs[%].%: %', v_row."index", v_row.field, v_row.message
                using errcode = case v_row.code when 'idempotency_conflict' then 'TM409' else 'TM422' end;
        end if;
        "index" := v_row."index"; job_id := v_row.job_id; state := v_row.state; deduplicated := v_row.deduplicated;
        return next;
    end loop;
exception
    when check_violation or invalid_text_representation or numeric_value_out_of_range or invalid_datetime_format
        or datetime_field_overflow or not_null_violation or interval_field_overflow or invalid_parameter_value
        or datatype_mismatch or sqlstate '22023' then
    for v_fault in select f.* from tidemill.job_faults(jobs) as f limit 1 loop
        raise exception 'jobs[%].%: %', v_fault.pos, v_fault.field, v_fault.message using errcode = 'TM422';
    end loop;
    raise exception 'a job is outside what the queue stores: %', sqlerrm using errcode = 'TM422';
end $$;

-- What is wrong with each job's shape, for the error text of tidemill.enqueue. Bounds as in API.md and domain/limits.py.
create function tidemill.job_faults(jobs jsonb) returns table (pos integer, field text, message text)
language sql immutable
begin atomic
    select (e.ord - 1)::integer, r.field,
           case r.kind
               when 'name' then 'must be 1 to 200 characters of [A-Za-z0-9][A-Za-z0-9_.:/-]*'
               when 'instant' then 'must be RFC 3339 with Z or an offset, such as 2027-01-31T09:00:00Z'
               when 'whole' then format('must be a whole number from %s to %s', r.low, r.high)
               when 'text' then format('must be text of %s to %s characters', r.low, r.high)
               else format('must be %s', r.kind) end
    from jsonb_array_elements(case jsonb_typeof(jobs) when 'array' then jobs else '[]' end) with ordinality as e (job, ord)
    cross join (values
        ('job_type', 'name', 1, 200), ('queue', 'name', 1, 200), ('rate_class', 'name', 1, 200),
        ('priority', 'whole', -32768, 32767), ('schema_version', 'whole', -2147483648, 2147483647),
        ('delay_ms', 'whole', 0, 315360000000), ('max_attempts', 'whole', 1, 1000), ('timeout_ms', 'whole', 1, 43200000),
        ('weight', 'whole', 1, 1000000), ('retention_ms', 'whole', 0, 315360000000), ('run_at', 'instant', 0, 0),
        ('idempotency_key', 'text', 1, 255), ('partition_key', 'text', 1, 255), ('sticky_worker', 'text', 1, 200),
        ('traceparent', 'text', 1, 255), ('tracestate', 'text', 1, 512), ('hold', 'boolean', 0, 0),
        ('tags', 'array', 0, 0), ('depends_on', 'array', 0, 0), ('ref', 'text', 1, 200), ('on_parent_failure', 'text', 3, 6), ('batch_id', 'text', 36, 36), ('headers', 'object', 0, 0), ('unique', 'object', 0, 0), ('concurrency', 'object', 0, 0)
    ) as r (field, kind, low, high)
    cross join lateral (select e.job -> r.field as given, e.job ->> r.field as word) as v
    where case
        when v.given is null or jsonb_typeof(v.given) = 'null' then r.field = 'job_type'
        when r.kind = 'name' then jsonb_typeof(v.given) <> 'string' or v.word !~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}$'
        when r.kind = 'text' then jsonb_typeof(v.given) <> 'string' or length(v.word) not between r.low and r.high
        when r.kind = 'whole' then jsonb_typeof(v.given) <> 'number' or v.word::numeric not between r.low and r.high
            or v.word::numeric <> trunc(v.word::numeric)
        when r.kind = 'instant' then jsonb_typeof(v.given) <> 'string'
            or v.word !~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$'
        else jsonb_typeof(v.given) <> r.kind end
    order by 1, 2
    limit 1000;
end;

