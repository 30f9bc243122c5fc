-- Claim: moves up to %(limit)s due entries into leases and returns whole jobs, in one statement and one round trip.
-- Parameters: project_id uuid; queues text[] (names); job_types text[] or null; worker_id uuid; lease_ms bigint or null
--   (null = the queue's visibility timeout); start boolean (begin at once: running, else claimed); limit integer 1…500;
--   since_queues uuid[], since_priorities smallint[], since_at timestamptz[]: watermarks, below which nothing is looked for;
--   now timestamptz or null (the statement's own time).
-- Order: queues by priority, equal ones drawn by weight (Efraimidis & Spirakis 2006: smallest -ln(u)/w first); then job
--   priority desc, run_at, id. Levels come from queue_levels, because searching them in the index would walk dead rows.
-- Shape: jobs are read by lateral look-ups and unique_holds by job, so that no statistics can make it a scan (docs/benchmarks.md).
-- Rows: one per claimed job, in that order; one with job_id null and job_type 'aside' if quarantined jobs were set aside instead (there may be
--   more to claim behind them); then, from the first gated queue on, one row per queue with job_id null (job_type 'gated' for a
--   gated one): they are the caller's to walk on with, by claim_gated.sql or this statement again.
-- Locks: entries (skip locked) -> quarantine (key share, skip locked) -> jobs (of those set aside) -> leases (insert) -> unique_holds (by key).
with queues as materialized (
    select q.id, q.name, q.visibility_timeout_secs, q.default_retry_policy_id,
           row_number() over (order by q.priority desc, -ln(1.0 - random()) / q.weight) as place,
           q.max_concurrency is not null
               or exists (select 1 from tidemill.queue_lanes l where l.queue_id = q.id)
               or exists (select 1 from tidemill.lane_news n where n.queue_id = q.id)
               or exists (select 1 from tidemill.concurrency_limits c where c.queue_id = q.id)
               or exists (select 1 from tidemill.concurrency_limits c where c.project_id = q.project_id and c.job_type is not null) as gated
    from tidemill.queues q
    where q.project_id = %(project_id)s::uuid and q.name = any(%(queues)s::text[]) and not q.is_paused
), plain as materialized (
    select q.* from queues q where q.place < coalesce((select min(g.place) from queues g where g.gated), 2147483647)
), levels as materialized (
    select q.place, l.queue_id, l.priority, coalesce(s.since, '-infinity'::timestamptz) as since
    from plain q
    cross join lateral (select distinct i.queue_id, i.priority from tidemill.queue_levels i where i.queue_id = q.id) l
    left join unnest(%(since_queues)s::uuid[], %(since_priorities)s::smallint[], %(since_at)s::timestamptz[]) as s (queue_id, priority, since)
        on s.queue_id = l.queue_id and s.priority = l.priority
    order by q.place, l.priority desc
), chance as materialized (
    -- one draw for all tokens, which are hashes of it and the job: still not to be guessed, and a draw costs 5 µs where the server
    -- has no OpenSSL
    select coalesce(%(now)s::timestamptz, statement_timestamp()) as now, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) as seed
), taken as (
    delete from tidemill.job_queue_entries e
    where e.ctid = any(array(
        select c.ctid
        from levels l
        cross join lateral (
            select d.ctid
            from tidemill.job_queue_entries d
            where d.queue_id = l.queue_id and d.lane = 0 and d.priority = l.priority and d.run_at >= l.since
              and d.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
              and (%(job_types)s::text[] is null
                   or (select j.job_type from tidemill.jobs j where j.id = d.job_id) = any(%(job_types)s::text[]))
            order by d.run_at, d.job_id
            limit %(limit)s::integer
            for update skip locked
        ) c
        limit %(limit)s::integer))
    returning e.queue_id, e.priority, e.run_at, e.job_id, e.attempt_count, e.fence, e.traits, e.weight
), aside as materialized (
    -- the gate of the quarantine: asked only where the project has a quarantined fingerprint (migration 0009)
    select case when exists (select 1 from tidemill.quarantine x where x.project_id = %(project_id)s::uuid and x.is_quarantined)
                then tidemill.set_aside(%(project_id)s::uuid, array_agg(t.job_id), array_agg(t.attempt_count), array_agg(t.fence), 'moving',
                                        %(now)s::timestamptz) end as ids
    from taken t
), leased as (
    insert into tidemill.job_leases (
        job_id, lease_token, queue_id, worker_id, attempt, fence, priority, traits, run_at, claimed_at, started_at, lease_expires_at,
        lease_ms, weight)
    select t.job_id, encode(substr(sha256(n.seed || uuid_send(t.job_id)), 1, 16), 'hex')::uuid, t.queue_id, %(worker_id)s::uuid,
           t.attempt_count + 1, t.fence + 1, t.priority, t.traits, t.run_at,
           n.now, case when %(start)s::boolean then n.now end, n.now + make_interval(secs => m.ms / 1000.0), m.ms,
           t.weight
    from taken t
    join queues q on q.id = t.queue_id
    cross join lateral (select coalesce(%(lease_ms)s::bigint, q.visibility_timeout_secs * 1000::bigint) as ms) m
    cross join chance n
    where not (t.job_id = any(coalesce((select a.ids from aside a), '{}')))
    returning job_id, lease_token, queue_id, attempt, fence, priority, run_at, lease_expires_at
), begun as (
    -- a unique key with window "pending" is free once its job begins
    delete from tidemill.unique_holds h
    where h.kind = 'unique' and h.job_id = any(array(
        select u.job_id from tidemill.unique_holds u
        where u.kind = 'unique' and u.job_id = any(array(select t.job_id from taken t where %(start)s::boolean and t.traits & 2 <> 0))
        order by u.key for update))
)
select l.job_id::text, l.lease_token::text, j.job_type::text, q.name::text as queue, j.payload::text, j.schema_version, j.headers::text,
       l.attempt,
       coalesce(j.max_attempts_override,
           case when jsonb_typeof(j.retry_policy -> 'max_attempts') = 'number' then (j.retry_policy ->> 'max_attempts')::integer end,
           (select p.max_attempts from tidemill.retry_policies p where p.id = coalesce(j.retry_policy_id, q.default_retry_policy_id)),
           5) as max_attempts,
       l.fence, l.lease_expires_at, j.timeout_ms, j.checkpoint::text, j.traceparent, j.tracestate,
       l.queue_id::text, l.priority, l.run_at, q.place
from leased l
join queues q on q.id = l.queue_id
cross join lateral (select * from tidemill.jobs i where i.id = l.job_id limit 1) j
union all
select null, null, case when q.gated then 'gated' end, q.name::text, null, null, null, null, null, null, null, null, null, null, null,
       q.id::text, null, null, q.place
from queues q
where q.place >= (select min(g.place) from queues g where g.gated)
union all
select null, null, 'aside', null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 0
from aside a where a.ids <> '{}'
order by place, priority desc, run_at, job_id
