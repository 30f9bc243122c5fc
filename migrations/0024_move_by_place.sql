-- Moving what waits to the lane of a new limit is linear in what is moved: it was 1.0, 2.4 and 5.9 s of the server's time where 2,000, 4,000 and 8,000 jobs waited,
-- because joins of tables without statistics read all entries for each of them.

-- Moves due jobs of types with a standing limit from lane 0 (no gates) to the lane that their columns mean, and appends news of it. Looks at the
-- first p_limit (or p_look) due entries of each priority of the queue, moves at most p_limit, passes over what somebody holds. Returns how many it moved.
-- Claims call it, so that nothing that was enqueued, retried or promoted without knowing of the limit escapes it; the scheduler, so that few are left.
-- Entries and jobs are looked up one by one and locked; then written by their places, which nobody changes meanwhile, with a snapshot that is younger than the locks.
-- Locks: entries (skip locked) -> jobs (skip locked).
-- squawk-ignore ban-drop-function
drop function tidemill.relane(uuid, text[], integer, timestamptz); -- calls of four arguments go to the next one, in the same transaction
create function tidemill.relane(p_queue_id uuid, p_types text[], p_limit integer, p_now timestamptz, p_look integer default null) returns bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_entries tid[];         -- where the entries stand, sorted, and of each its job and the lane it goes to
    v_ids uuid[];
    v_lanes bigint[];
    v_levels smallint[];
    v_times timestamptz[];
    v_jobs tid[];            -- where the jobs stand
begin
    with seen as materialized (
        select e.priority, e.run_at, e.job_id
        from (select distinct i.priority from tidemill.queue_levels i where i.queue_id = p_queue_id) v
        cross join lateral (
            select d.priority, d.run_at, d.job_id from tidemill.job_queue_entries d
            where d.queue_id = p_queue_id and d.lane = 0 and d.priority = v.priority and d.run_at <= p_now
            order by d.run_at, d.job_id limit coalesce(p_look, p_limit)) e
    ), limited as materialized (
        select s.priority, s.run_at, s.job_id from seen s
        cross join lateral (select 1 from tidemill.jobs i where i.id = s.job_id and i.job_type = any(p_types) limit 1) j
        limit p_limit
    ), held as materialized (
        select h.place, s.priority, s.run_at, s.job_id from limited s
        cross join lateral (
            select e.ctid as place from tidemill.job_queue_entries e
            where e.queue_id = p_queue_id and e.lane = 0 and e.priority = s.priority and e.run_at = s.run_at and e.job_id = s.job_id
            limit 1 for update skip locked) h
    ), owned as materialized (
        select h.place, h.priority, h.run_at, h.job_id, o.job_place, o.lane from held h
        cross join lateral (
            select j.ctid as job_place,
                   tidemill.lane_of(j.job_type, j.concurrency_limit, j.concurrency_key, j.partition_key, j.rate_class, j.sticky_worker) as lane
            from tidemill.jobs j where j.id = h.job_id limit 1 for update skip locked) o
    )
    select array_agg(o.place order by o.place), array_agg(o.job_id order by o.place), array_agg(o.lane order by o.place),
           array_agg(o.priority order by o.place), array_agg(o.run_at order by o.place), array_agg(o.job_place)
    into v_entries, v_ids, v_lanes, v_levels, v_times, v_jobs from owned o;
    if v_entries is null then
        return 0;
    end if;
    update tidemill.jobs j
    set lane = tidemill.lane_of(j.job_type, j.concurrency_limit, j.concurrency_key, j.partition_key, j.rate_class, j.sticky_worker)
    where j.ctid = any(v_jobs);
    update tidemill.job_queue_entries e set lane = v_lanes[width_bucket(e.ctid, v_entries)] where e.ctid = any(v_entries);
    insert into tidemill.lane_news (queue_id, job_id, run_at)
    select distinct on (m.lane, m.priority) p_queue_id, m.job_id, m.run_at
    from rows from (unnest(v_ids), unnest(v_lanes), unnest(v_levels), unnest(v_times)) as m (job_id, lane, priority, run_at)
    order by m.lane, m.priority, m.run_at;
    return cardinality(v_entries);
end $$;
