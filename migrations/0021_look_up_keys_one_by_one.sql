-- Two functions of enqueue that cost more than they had to: the keys of a call on Postgres 16, and a single job for a queue with a bound.

-- As in 0005, but each key is looked up by itself. With `key = any(…) order by key` Postgres 16, which gets no order from an index scan over a list, and
-- has no statistics of a young table, walked all keys of the project: 200,000 rows for 100 keys. Looked up one by one it is 200 on every version.
-- Locks those of the unique keys that are there, all at once or none: whoever frees keys in several statements of one transaction
-- (acks, then a claim that begins jobs; a parent's end, then its children's) can follow no order, so an enqueue never waits for one
-- key while it holds another. After twenty tries it waits in key order like everybody else.
create or replace function tidemill.lock_keys(p_project_id uuid, p_keys bytea[]) returns void
language plpgsql as $$
declare
    v_busy bytea[];
begin
    for v_try in 1..20 loop
        begin
            with wanted as materialized (
                select distinct k.key from unnest(p_keys) as k (key) order by 1
            ), free as materialized (
                select f.key from wanted w
                cross join lateral (
                    select u.key from tidemill.unique_holds u
                    where u.project_id = p_project_id and u.kind = 'unique' and u.key = w.key for update skip locked) f
            )
            select array_agg(h.key) into v_busy
            from wanted w
            cross join lateral (
                select u.key from tidemill.unique_holds u
                where u.project_id = p_project_id and u.kind = 'unique' and u.key = w.key limit 1) h
            where h.key not in (select f.key from free f);
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

-- As in 0016, but a plain job of a bounded queue is stored here, too, where the queue has room for it: it took 2.6 times the server's time of another.
-- Creates one job, as admit does with an array of one. Answers a JSON array: job_id, state, deduplicated, code, field, message, the last three null
-- where nothing is wrong. A plain job is stored here, with the same columns as in enqueue_results; whatever needs more (a field of its own, a queue
-- that is not there or has no room, a limit of its type, a quarantine in the project) is left to admit. Locks: the fill lock of a bounded queue.
create or replace function tidemill.admit_one(p_project_id uuid, p_job jsonb, p_atomic boolean, p_now timestamptz default null) returns text
language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_priority smallint;
    v_queue_id uuid;
    v_is_new_level boolean;
    v_is_plain boolean := false;
    v_is_bounded boolean;
    v_id uuid;
    v_run_at timestamptz;
begin
    if jsonb_typeof(p_job) = 'object' and p_job - tidemill.plain_fields() = '{}' then
        v_priority := coalesce((p_job ->> 'priority')::smallint, 0::smallint);
        select q.id, not exists (select 1 from tidemill.queue_levels l where l.queue_id = q.id and l.priority = v_priority),
               q.max_unfinished_jobs is not null,
               not exists (select 1 from tidemill.concurrency_limits c where c.project_id = p_project_id and c.job_type = p_job ->> 'job_type')
               and not exists (select 1 from tidemill.quarantine x where x.project_id = p_project_id and x.is_quarantined)
        into v_queue_id, v_is_new_level, v_is_bounded, v_is_plain
        from tidemill.queues q
        where q.project_id = p_project_id and q.name = coalesce(p_job ->> 'queue', 'default') and not q.is_closed;
    end if;
    if v_is_plain and v_is_bounded then
        perform pg_advisory_xact_lock(tidemill.fill_lock(v_queue_id));
        -- A long transaction may have been waited for: what was read before is asked again, and no entry may be behind the clock.
        v_now := coalesce(p_now, clock_timestamp());
        v_is_plain := exists (select 1 from tidemill.queues q where q.id = v_queue_id and not q.is_closed)
            and not exists (select 1 from tidemill.concurrency_limits c where c.project_id = p_project_id and c.job_type = p_job ->> 'job_type')
            and not exists (select 1 from tidemill.quarantine x where x.project_id = p_project_id and x.is_quarantined);
        if v_is_plain then
            v_is_plain := tidemill.take_room(v_queue_id, 1) = 1;
        end if;
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
