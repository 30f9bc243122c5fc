-- One job comes in by one function that answers in one value. A call with one job is the commonest one, and the server spends more on the start
-- of its statements than on its two rows: a select of one value is read and planned in less than half the time of one that takes columns from a
-- function, and a plain job asks all that concerns its queue in one look. Many plain jobs are stored by a smaller statement than others.

-- Creates one job, as admit does with an array of one. Answers a JSON array: job_id, state, deduplicated, code, field, message, the last three null
-- where nothing is wrong. A plain job is stored here, with the same columns as in enqueue_results; whatever needs more (a field of its own, a
-- queue that is not there or is bounded, a limit of its type, a quarantine in the project) is left to admit.
create function tidemill.admit_one(p_project_id uuid, p_job jsonb, p_atomic boolean, p_now timestamptz default null) returns text
language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_priority smallint;
    v_queue_id uuid;
    v_is_new_level boolean;
    v_is_plain boolean := false;
    v_id uuid;
    v_run_at timestamptz;
begin
    if jsonb_typeof(p_job) = 'object' and p_job - tidemill.plain_fields() = '{}' then
        v_priority := coalesce((p_job ->> 'priority')::smallint, 0::smallint);
        select q.id, not exists (select 1 from tidemill.queue_levels l where l.queue_id = q.id and l.priority = v_priority),
               q.max_unfinished_jobs is null
               and not exists (select 1 from tidemill.concurrency_limits c where c.project_id = p_project_id and c.job_type = p_job ->> 'job_type')
               and not exists (select 1 from tidemill.quarantine x where x.project_id = p_project_id and x.is_quarantined)
        into v_queue_id, v_is_new_level, v_is_plain
        from tidemill.queues q
        where q.project_id = p_project_id and q.name = coalesce(p_job ->> 'queue', 'default') and not q.is_closed;
    end if;
    if v_is_plain is not true then
        return (select jsonb_build_array(r.job_id, r.state, r.deduplicated, r.code, r.field, r.message)::text
                from tidemill.admit(p_project_id, jsonb_build_array(p_job), p_atomic, p_now) as r);
    end if;

    v_id := tidemill.uuid7(tidemill.uuid7_ticks(v_now));
    v_run_at := greatest(v_now, case when p_job ->> 'run_at' is not null then tidemill.instant(p_job ->> 'run_at')
                                     when p_job ->> 'delay_ms' is not null then v_now + make_interval(secs => (p_job ->> 'delay_ms')::bigint / 1000.0) end);
    insert into tidemill.jobs (
        id, project_id, queue_id, job_type, payload, schema_version, priority, phase, run_at, max_attempts_override, timeout_ms, headers,
        principal_id, correlation_id, traceparent, tracestate, trace_id, created_at, updated_at)
    values (
        v_id, p_project_id, v_queue_id, p_job ->> 'job_type', coalesce(p_job -> 'payload', '{}'), (p_job ->> 'schema_version')::integer,
        v_priority, 'moving', v_run_at, (p_job ->> 'max_attempts')::integer, (p_job ->> 'timeout_ms')::bigint, nullif(p_job -> 'headers', 'null'),
        left(coalesce(p_job -> 'payload' ->> 'principal_id', p_job -> 'payload' ->> 'principal', p_job -> 'payload' ->> 'user_id'), 255),
        left(coalesce(p_job -> 'payload' ->> 'correlation_id', p_job -> 'payload' ->> 'request_id'), 255),
        p_job ->> 'traceparent', p_job ->> 'tracestate', substr(p_job ->> 'traceparent', 4, 32), v_now, v_now);
    insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id) values (v_queue_id, v_priority, v_run_at, v_id);
    if v_is_new_level then
        insert into tidemill.queue_levels (queue_id, priority) values (v_queue_id, v_priority);
    end if;
    if v_run_at <= v_now and exists (select 1 from tidemill.queue_sleepers s where s.queue_id = v_queue_id) then
        perform tidemill.ring_sleepers(array[v_queue_id]);
    end if;
    return '["' || v_id || case when v_run_at > v_now then '","scheduled"' else '","queued"' end || ',false,null,null,null]';
end $$;

-- Creates jobs, as admit does. Where all of them are plain (most calls) and nothing about their queues or project asks for more, they are stored by
-- a statement that names fewer than half the columns: the server pays for each one per job, used or not. Everything else is left to admit.
-- p_is_plain: whether the caller knows that no job has a field beyond plain_fields(); such a field would be lost.
create function tidemill.admit_many(p_project_id uuid, p_jobs jsonb, p_atomic boolean, p_is_plain boolean, p_now timestamptz default null)
returns table ("index" integer, job_id uuid, state tidemill.job_status, deduplicated boolean, code text, field text, message text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ticks bigint := tidemill.uuid7_ticks(v_now);
    v_salt uuid := gen_random_uuid();
    v_ids uuid[];
    v_queues text[];         -- distinct names (once for each priority), and what they stand for
    v_queue_ids uuid[];
    v_is_new_level boolean;
    v_is_plain boolean := false;
begin
    if p_is_plain and jsonb_typeof(p_jobs) = 'array' and jsonb_array_length(p_jobs) between 1 and 1000 then
        select array_agg(n.name), array_agg(q.id),
               bool_or(not exists (select 1 from tidemill.queue_levels l where l.queue_id = q.id and l.priority = n.level)),
               bool_and(q.id is not null and q.max_unfinished_jobs is null)
               and not exists (select 1 from tidemill.concurrency_limits c where c.project_id = p_project_id and c.job_type is not null)
               and not exists (select 1 from tidemill.quarantine x where x.project_id = p_project_id and x.is_quarantined)
        into v_queues, v_queue_ids, v_is_new_level, v_is_plain
        from (select distinct coalesce(r.queue, 'default') as name, coalesce(r.priority, 0::smallint) as level
              from jsonb_to_recordset(p_jobs) as r (queue text, priority smallint)) n
        left join lateral (
            select q.id, q.max_unfinished_jobs from tidemill.queues q
            where q.project_id = p_project_id and q.name = n.name and not q.is_closed limit 1) q on true;
    end if;
    if not v_is_plain then
        return query select r.* from tidemill.admit(p_project_id, p_jobs, p_atomic, p_now) as r;
        return;
    end if;

    v_ids := array(select tidemill.uuid7(v_ticks + i, v_salt) from generate_series(0, jsonb_array_length(p_jobs) - 1) as i);
    return query
    with born as (
        insert into tidemill.jobs as j (
            id, project_id, queue_id, job_type, payload, schema_version, priority, phase, run_at, max_attempts_override, timeout_ms, headers,
            principal_id, correlation_id, traceparent, tracestate, trace_id, created_at, updated_at)
        select v_ids[r.ord], p_project_id, v_queue_ids[array_position(v_queues, coalesce(r.queue, 'default'))], r.job_type,
               -- a record cannot tell a payload of null from none
               coalesce(r.payload, case when p_jobs -> (r.ord - 1)::integer ? 'payload' then 'null'::jsonb else '{}' end),
               r.schema_version, coalesce(r.priority, 0::smallint), 'moving',
               greatest(v_now, case when r.run_at is not null then tidemill.instant(r.run_at)
                                    when r.delay_ms is not null then v_now + make_interval(secs => r.delay_ms / 1000.0) end),
               r.max_attempts, r.timeout_ms, r.headers,
               left(coalesce(r.payload ->> 'principal_id', r.payload ->> 'principal', r.payload ->> 'user_id'), 255),
               left(coalesce(r.payload ->> 'correlation_id', r.payload ->> 'request_id'), 255),
               r.traceparent, r.tracestate, substr(r.traceparent, 4, 32), v_now + make_interval(secs => (r.ord - 1) / 4096000.0), v_now
        from rows from (jsonb_to_recordset(p_jobs) as (
            job_type text, queue text, payload jsonb, schema_version integer, priority smallint, run_at text, delay_ms bigint,
            max_attempts integer, timeout_ms bigint, headers jsonb, traceparent text, tracestate text
        )) with ordinality as r (
            job_type, queue, payload, schema_version, priority, run_at, delay_ms, max_attempts, timeout_ms, headers, traceparent, tracestate, ord)
        returning j.id, j.queue_id, j.priority, j.run_at
    ), entered as (
        insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id)
        select b.queue_id, b.priority, b.run_at, b.id from born b
    )
    select (row_number() over (order by b.id) - 1)::integer, b.id,
           case when b.run_at > v_now then 'scheduled' else 'queued' end::tidemill.job_status, false, null::text, null::text, null::text
    from born b
    order by b.id;

    if v_is_new_level then
        insert into tidemill.queue_levels (queue_id, priority)
        select distinct j.queue_id, j.priority
        from unnest(v_ids) as b (id)
        cross join lateral (select j.queue_id, j.priority from tidemill.jobs j where j.id = b.id limit 1) j
        where not exists (select 1 from tidemill.queue_levels l where l.queue_id = j.queue_id and l.priority = j.priority);
    end if;
    if exists (select 1 from tidemill.queue_sleepers s where s.queue_id = any(v_queue_ids)) then
        perform tidemill.ring_sleepers(array(
            select distinct j.queue_id
            from unnest(v_ids) as b (id)
            cross join lateral (select j.queue_id from tidemill.jobs j where j.id = b.id and j.run_at <= v_now limit 1) j));
    end if;
end $$;

-- The same for a caller that must not lose its transaction to a refusal and would rather not pay for a savepoint: a refusal is one row with its SQLSTATE
-- and message, and nothing is stored then.
create function tidemill.enqueue_or_tell(project_id uuid, jobs jsonb)
returns table ("index" integer, job_id uuid, state tidemill.job_status, deduplicated boolean, code text, message text)
language plpgsql as $$
#variable_conflict use_column
begin
    return query select r."index", r.job_id, r.state, r.deduplicated, null::text, null::text from tidemill.enqueue(project_id, jobs) as r;
exception when sqlstate 'TM422' or sqlstate 'TM409' or sqlstate 'TM429' then
    return query select 0, null::uuid, null::tidemill.job_status, false, sqlstate, sqlerrm;
end $$;
