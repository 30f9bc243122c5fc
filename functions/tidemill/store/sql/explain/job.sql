-- Why a job does not run: one row per reason, in the claim's own order. Reads what the claim reads (entry, lane, limits, leases, rate class, workers),
-- with the same functions. Parameters: project_id uuid; job_id uuid; now timestamptz or null.
-- Rows: rank, reason, since, detail, clears_at; a reason `note` holds nothing back; the last row has no reason but the job's state; none if the project has no such job.
with job as materialized (
    select s.*, j.lane, e.job_id is not null as has_entry, n.now
    from tidemill.job_states s
    join tidemill.jobs j on j.id = s.id
    left join tidemill.job_queue_entries e
        on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
    cross join (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) n
    where s.id = %(job_id)s::uuid and s.project_id = %(project_id)s::uuid
), place as materialized (
    select j.id, q.is_paused, q.updated_at as queue_updated_at, q.name as queue_name,
           least(q.max_concurrency, (select min(c.max_concurrent) from tidemill.concurrency_limits c where c.queue_id = q.id)) as queue_max,
           l.blocked_by, l.blocked_since, l.look_at
    from job j
    join tidemill.queues q on q.id = j.queue_id
    left join tidemill.queue_lanes l on l.queue_id = j.queue_id and l.lane = j.lane and l.priority = j.priority
), waiting as materialized (
    select j.*, p.is_paused, p.queue_updated_at, p.queue_name, p.queue_max, p.blocked_by, p.blocked_since
    from job j join place p on p.id = j.id
    where j.status in ('pending', 'scheduled', 'queued')
), queue_load as materialized (
    select w.id, (select count(*) from (select 1 from tidemill.job_leases l
                  where l.queue_id = w.queue_id and l.traits & 128 <> 0 limit w.queue_max + 1) x) as running,
           (select array_agg(x.job_id::text) from (
               select l.job_id from (
                   select i.job_id, i.claimed_at from tidemill.job_leases i
                   where i.queue_id = w.queue_id and i.traits & 128 <> 0 limit least(w.queue_max, 100)) l
               order by l.claimed_at limit 5) x) as holders
    from waiting w where w.queue_max is not null
), key_load as materialized (
    -- counted no further than the limit; the oldest five of at most a hundred are named, because a limit may be a million
    select w.id, w.concurrency_limit as most,
           (select count(*) from (select 1 from tidemill.job_leases l
                                  where l.limit_key = tidemill.limit_key(w.project_id, w.job_type, w.concurrency_key) limit w.concurrency_limit) x) as running,
           (select array_agg(x.job_id::text) from (
               select l.job_id from (
                   select i.job_id, i.claimed_at from tidemill.job_leases i
                   where i.limit_key = tidemill.limit_key(w.project_id, w.job_type, w.concurrency_key) limit least(w.concurrency_limit, 100)) l
               order by l.claimed_at limit 5) x) as holders
    from waiting w where w.concurrency_limit is not null
), type_load as materialized (
    select w.id, c.name, c.max_concurrent as most,
           (select count(*) from (select 1 from tidemill.job_leases l
                                  where l.type_key = tidemill.type_key(w.project_id, w.job_type) limit c.max_concurrent) x) as running,
           (select array_agg(x.job_id::text) from (
               select l.job_id from tidemill.job_leases l
               where l.type_key = tidemill.type_key(w.project_id, w.job_type) order by l.priority, l.claimed_at limit least(c.max_concurrent, 5)) x) as holders
    from waiting w
    join tidemill.concurrency_limits c on c.project_id = w.project_id and c.job_type = w.job_type
), rate as materialized (
    select w.id, w.weight, r.name, r.burst, r."limit", r.window_ms, r.is_paused, r.closed_until, tidemill.tokens_now(r, w.now) as tokens,
           case when r.closed_until > w.now then r.tokens else tidemill.tokens_now(r, w.now) end as saved, r.refilled_at, w.now
    from waiting w
    join tidemill.rate_classes r on r.project_id = w.project_id and r.name = w.rate_class
), listeners as materialized (
    select w.id, count(*) filter (where v.is_live) as live, max(v.last_seen_at) as last_seen_at,
           coalesce(bool_or(v.is_live and v.name = w.sticky_worker), false) as sticky_listens,
           exists (select 1 from tidemill.workers k where k.project_id = w.project_id and k.name = w.sticky_worker and k.status in ('running', 'quiet')
                     and k.last_seen_at > w.now - make_interval(secs => greatest(30, k.lease_ms / 1000.0))) as sticky_is_live
    from waiting w
    left join lateral (
        select k.name, k.last_seen_at,
               k.status = 'running' and k.last_seen_at > w.now - make_interval(secs => greatest(30, k.lease_ms / 1000.0)) as is_live
        from tidemill.workers k
        where k.project_id = w.project_id and w.queue_id = any(k.subscribed_queues)
          and (k.job_types is null or w.job_type::text = any(k.job_types))
        order by k.last_seen_at desc limit 1000
    ) v on true
    group by w.id, w.project_id, w.sticky_worker, w.now
), banned as materialized (
    -- of a job that is set aside already: what it was set aside for
    select x.is_quarantined, x.quarantined_at,
           concat(' after ', x.losses, ' lost leases and crashes, the last at ', to_char(x.last_loss_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ', exit code ' || x.last_exit_code) as evidence
    from job j
    join tidemill.quarantine x on x.project_id = j.project_id and x.fingerprint = case
        when j.status = 'quarantined' then j.fingerprint
        when j.status in ('pending', 'scheduled', 'queued')
             and exists (select 1 from tidemill.quarantine o where o.project_id = j.project_id and o.job_type = j.job_type and o.is_quarantined)
        then (select tidemill.fingerprint(p.job_type, p.payload) from tidemill.jobs p where p.id = j.id) end
), reasons (rank, reason, since, detail, clears_at) as (
    select 1, 'final', j.finalized_at, concat('the job is ', j.status), null::timestamptz
    from job j where j.status in ('completed', 'cancelled', 'dead_letter')
    union all
    select 2, 'leased', j.locked_at, concat('worker ', j.locked_by, ' works on it since ', to_char(j.locked_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), null
    from job j where j.status in ('claimed', 'running')
    union all
    select 3, 'dependencies', j.created_at, concat('waits for ', j.pending_parents, ' of its parents'), null
    from job j where j.status = 'pending' and j.pending_parents > 0
    union all
    select 4, 'held', j.updated_at, 'held until somebody promotes it', null from job j where j.status = 'pending' and j.is_held
    union all
    select 5, 'schedule', j.created_at, case when j.attempt_count > 0 then concat('attempt ', j.attempt_count + 1, ' waits out its backoff') else 'its time has not come' end, j.run_at
    from waiting j where j.run_at > j.now
    union all
    select 6, 'queue_paused', w.queue_updated_at, concat('queue ', w.queue_name, ' is paused'), null from waiting w where w.is_paused
    union all
    select 7, 'queue_concurrency', null, concat(l.running, ' of ', w.queue_max, ' places of queue ', w.queue_name, ' are taken',
           ' by ' || nullif(array_to_string(l.holders, ', '), '')), null
    from waiting w join queue_load l on l.id = w.id where l.running >= w.queue_max
    union all
    select 8, 'quarantine', coalesce(x.quarantined_at, j.updated_at),
           concat('its fingerprint is quarantined', x.evidence, ': release or discard it'), null
    from job j
    left join banned x on true
    where j.status = 'quarantined' or (x.is_quarantined and j.status in ('pending', 'scheduled', 'queued'))
    union all
    select 9, 'concurrency_key', case when w.blocked_by = 'concurrency_key' then w.blocked_since end,
           concat(k.running, ' of ', k.most, ' places', coalesce(' of key ' || quote_literal(w.concurrency_key), ''), ' are taken by ', array_to_string(k.holders, ', ')), null
    from waiting w join key_load k on k.id = w.id where k.running >= k.most
    union all
    select 9, 'concurrency_key', case when w.blocked_by = 'concurrency_key' then w.blocked_since end,
           concat(t.running, ' of ', t.most, ' places of the standing limit ', t.name, ' on ', w.job_type, ' are taken', ' by ' || nullif(array_to_string(t.holders, ', '), '')), null
    from waiting w join type_load t on t.id = w.id where t.running >= t.most
    union all
    select 10, 'rate_class', case when w.blocked_by = 'rate_class' then w.blocked_since end,
           case when r.is_paused then concat('rate class ', r.name, ' is paused')
                when r.closed_until > r.now then concat('rate class ', r.name, ' is closed by a worker''s Retry-After')
                else concat('rate class ', r.name, ' has ', round(r.tokens::numeric, 2), ' tokens, the job costs ', r.weight) end,
           case when r.is_paused then null else greatest(r.now, r.refilled_at, r.closed_until)
               + make_interval(secs => (least(r.burst, r.weight) - r.saved) * r.window_ms / r."limit" / 1000.0) end
    from waiting w join rate r on r.id = w.id where r.tokens + 1e-9 < least(r.burst, r.weight)
    union all
    select 11, 'sticky_worker', null, concat('only worker ', w.sticky_worker, ' may take it while that one is live'), null
    from waiting w join listeners l on l.id = w.id where w.sticky_worker is not null and l.sticky_is_live and not l.sticky_listens
    union all
    select 12, 'no_live_worker', l.last_seen_at,
           case when l.last_seen_at is null then 'no worker listens to its queue and type' else concat('no live worker listens, the last one was seen at ', to_char(l.last_seen_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) end, null
    from waiting w join listeners l on l.id = w.id where l.live = 0
)
select r.rank, r.reason, r.since, r.detail, r.clears_at from reasons r
union all
select 50, 'note', null, concat('rate class ', w.rate_class, ' does not exist: it holds nothing back'), null
from waiting w
where w.rate_class is not null and not exists (select 1 from tidemill.rate_classes r where r.project_id = w.project_id and r.name = w.rate_class)
union all
select 99, null, null, j.status::text, null from job j
order by 1
