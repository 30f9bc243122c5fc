-- What has changed in a project since a snapshot that an earlier call of this gave. Nothing is written for it: it looks at the young end of indexes
--   that exist anyway and takes the rows whose transaction was not visible then, so what is committed late is not missed.
-- Parameters: project_id uuid; snapshot text or null (a first call: only `mark`); since timestamptz (of that call); overlap_ms bigint: how long before `since`
--   a row may have been written whose transaction ends only now; floor_id uuid: the least id of that time; rows integer: how many rows of each index are looked at; most integer: jobs told at most.
-- Rows: kind (mark: id is the snapshot of this call, state its time; job: id, state; queue, schedule: name; worker: id; truncated: more has changed than is told),
--   id, state, is_sure: false for what may have been told before (a savepoint's rows cannot be told from their transaction's). Locks: none.
with prev as materialized (
    select %(snapshot)s::pg_snapshot as snapshot, %(since)s::timestamptz as since, statement_timestamp() as now,
           %(since)s::timestamptz - make_interval(secs => %(overlap_ms)s::bigint / 1000.0) as floor,
           pg_snapshot_xmin(%(snapshot)s::pg_snapshot)::text::bigint as xmin, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as top
    where %(snapshot)s::text is not null
), queues as materialized (
    select q.id, q.name::text as name, q.xmin::text::bigint as xid from prev p cross join tidemill.queues q where q.project_id = %(project_id)s::uuid
), share as materialized (
    select greatest(20, %(rows)s::integer / greatest(1, (select count(*) from queues))::integer) as rows
), seen as (
    -- created
    (select 'job' as kind, j.id::text as id, j.created_at as at, j.xmin::text::bigint as xid, count(*) over () >= %(rows)s::integer as is_full
     from prev p cross join lateral (
        select i.id, i.created_at, i.xmin from tidemill.jobs i
        where (i.project_id, i.id) > (%(project_id)s::uuid, %(floor_id)s::uuid) and (i.project_id, i.id) <= (%(project_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        order by i.project_id desc, i.id desc limit %(rows)s::integer) j)
    union all
    -- ended without an attempt's end, or with one
    (select 'job', j.id::text, j.finalized_at, j.xmin::text::bigint, count(*) over () >= %(rows)s::integer
     from prev p cross join lateral (
        select i.id, i.finalized_at, i.xmin from tidemill.jobs i
        where (i.project_id, i.finalized_at) >= (%(project_id)s::uuid, p.floor) and (i.project_id, i.finalized_at) <= (%(project_id)s::uuid, 'infinity')
          and i.finalized_at is not null
        order by i.project_id desc, i.finalized_at desc, i.id desc limit %(rows)s::integer) j)
    union all
    -- attempts that ended: the three ways that have an index
    (select 'job', x.job_id::text, x.finished_at, x.xmin::text::bigint, count(*) over (partition by q.id) >= (select s.rows from share s)
     from prev p cross join queues q cross join lateral (
        select i.job_id, i.finished_at, i.xmin from tidemill.job_executions i
        where i.queue_id = q.id and i.status = 'completed' and i.retention_until is null and i.finished_at >= p.floor
        order by i.finished_at desc limit (select s.rows from share s)) x)
    union all
    (select 'job', x.job_id::text, x.finished_at, x.xmin::text::bigint, count(*) over (partition by q.id) >= (select s.rows from share s)
     from prev p cross join queues q cross join lateral (
        select i.job_id, i.finished_at, i.xmin from tidemill.job_executions i
        where i.queue_id = q.id and i.status = 'completed' and i.retention_until is not null and i.finished_at >= p.floor
        order by i.finished_at desc limit (select s.rows from share s)) x)
    union all
    (select 'job', x.job_id::text, x.finished_at, x.xmin::text::bigint, count(*) over (partition by q.id) >= (select s.rows from share s)
     from prev p cross join queues q cross join lateral (
        select i.job_id, i.finished_at, i.xmin from tidemill.job_executions i
        where i.queue_id = q.id and i.status <> 'completed' and i.finished_at >= p.floor
        order by i.finished_at desc limit (select s.rows from share s)) x)
    union all
    -- came due, or became due by a hand: only the youngest part of what waits
    (select 'job', e.job_id::text, e.run_at, e.xid, count(*) over (partition by q.id) >= (select s.rows from share s)
     from prev p cross join queues q cross join lateral (
        (select i.job_id, i.run_at, case when i.run_at > p.since then p.top else i.xmin::text::bigint end as xid
         from (select distinct l.priority from tidemill.queue_levels l where l.queue_id = q.id) l
         cross join lateral (
            select n.job_id, n.run_at, n.xmin from tidemill.job_queue_entries n
            where n.queue_id = q.id and n.lane = 0 and n.priority = l.priority and n.run_at > p.floor and n.run_at <= p.now
            order by n.run_at desc limit (select s.rows from share s)) i)
        union all
        (select n.job_id, n.run_at, case when n.run_at > p.since then p.top else n.xmin::text::bigint end
         from tidemill.job_queue_entries n
         where n.queue_id = q.id and n.lane <> 0 and n.run_at > p.floor and n.run_at <= p.now
         order by n.run_at desc limit (select s.rows from share s))) e)
    union all
    -- claimed, started, asked to stop: leases that end last are the youngest, or were extended
    (select 'job', l.job_id::text, l.at, l.xid, false
     from prev p cross join lateral (
        select i.job_id, greatest(i.claimed_at, i.started_at, i.cancel_requested_at) as at, i.xmin::text::bigint as xid, i.queue_id
        from tidemill.job_leases i where i.lease_expires_at >= p.floor order by i.lease_expires_at desc limit %(rows)s::integer) l
     join queues q on q.id = l.queue_id
     where l.at >= p.floor)
    union all
    -- moved by an operator
    (select case a.target_kind when 'dead_letter' then 'job' else a.target_kind end, a.target_id, a.at, a.xmin::text::bigint, false
     from prev p cross join lateral (
        select i.target_kind, i.target_id, i.at, i.xmin from tidemill.audit_log i
        where i.project_id = %(project_id)s::uuid order by i.id desc limit least(200, %(rows)s::integer)) a
     where a.at >= p.floor and a.target_kind in ('job', 'dead_letter', 'queue', 'schedule', 'worker'))
    union all
    (select 'queue', q.name, p.now, q.xid, false from prev p cross join queues q)
    union all
    (select 'schedule', c.name, p.now, c.xid, false
     from prev p cross join lateral (
        select i.name::text as name, i.xmin::text::bigint as xid from tidemill.scheduled_jobs i
        where i.project_id = %(project_id)s::uuid limit 2000) c)
    union all
    -- a beat alone is no news; a worker that came, or that fell silent, is
    (select 'worker', w.id::text, p.now, case when (w.goes_at > p.since and w.goes_at <= p.now) or w.started_at > p.since then p.top else w.xid end, false
     from prev p cross join lateral (
        select i.id, i.started_at, i.last_seen_at + make_interval(secs => i.lease_ms / 1000.0) as goes_at, i.xmin::text::bigint as xid from tidemill.workers i
        where i.project_id = %(project_id)s::uuid order by i.id desc limit 1000) w)
), marked as (
    select s.kind, s.id, s.at, s.is_full, s.xid, p.top - ((p.top - s.xid) & 4294967295) as full_xid, p.since, p.xmin, p.top, p.snapshot
    from seen s cross join prev p
), fresh as materialized (
    select m.kind, m.id, max(m.at) as at,
           bool_or(m.xid = m.top or (m.kind <> 'worker' and not pg_visible_in_snapshot(m.full_xid::text::xid8, m.snapshot))) as is_sure,
           bool_or(m.is_full and m.at > m.since) as is_full
    from marked m
    where m.xid = m.top or not pg_visible_in_snapshot(m.full_xid::text::xid8, m.snapshot) or m.full_xid > m.xmin
    group by m.kind, m.id
), jobs as materialized (
    select f.id::uuid as id, f.is_sure from fresh f
    where f.kind = 'job' and f.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    order by f.is_sure desc, f.at desc limit %(most)s::integer
), told as materialized (
    select j.id, s.status::text as state, s.queue::text as queue, j.is_sure
    from jobs j join tidemill.job_states s on s.id = j.id
    where s.project_id = %(project_id)s::uuid
)
select 'mark' as kind, pg_current_snapshot()::text as id, to_char(statement_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as state, true as is_sure
union all
select 'job', t.id::text, t.state, t.is_sure from told t
union all
select 'queue', q.name, null, bool_or(q.is_sure)
from (select f.id as name, f.is_sure from fresh f where f.kind = 'queue' union all select t.queue, t.is_sure from told t) q
group by q.name
union all
select f.kind, f.id, null, f.is_sure from fresh f where f.kind in ('schedule', 'worker')
union all
select 'truncated', null, null, true
where exists (select 1 from fresh f where f.is_full) or (select count(*) from fresh f where f.kind = 'job') > %(most)s::integer
