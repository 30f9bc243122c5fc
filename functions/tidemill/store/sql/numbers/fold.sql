-- Fold: counts what was created and what ended in [since, until), which lies within one minute, and adds it to the counters. Reads index ranges only.
-- Parameters: since, until timestamptz; since_id, until_id uuid (the least ids that jobs created then can have).
-- Rows: one: arrived, completed, failed, dead over all queues. Locks: the counters' rows (only the holder of the counter state comes here).
with arrivals as materialized (
    select p.id as project_id, a.queue_id, a.job_type, a.n
    from tidemill.projects p
    cross join lateral (
        select j.queue_id, j.job_type::text as job_type, count(*) as n
        from tidemill.jobs j
        where j.project_id = p.id and j.id >= %(since_id)s::uuid and j.id < %(until_id)s::uuid
        group by j.queue_id, j.job_type) a
), ends as materialized (
    select q.id as queue_id, e.status, e.wait_bucket, e.run_bucket, e.n
    from tidemill.queues q
    cross join lateral (
        select x.status, tidemill.latency_bucket(extract(epoch from x.started_at - x.queued_at)::double precision * 1000) as wait_bucket,
               tidemill.latency_bucket(x.duration_ms) as run_bucket, count(*) as n
        from (
            select c.status, c.queued_at, c.started_at, c.duration_ms from tidemill.job_executions c
            where c.queue_id = q.id and c.status = 'completed' and c.retention_until is null
              and c.finished_at >= %(since)s::timestamptz and c.finished_at < %(until)s::timestamptz
            union all
            select c.status, c.queued_at, c.started_at, c.duration_ms from tidemill.job_executions c
            where c.queue_id = q.id and c.status = 'completed' and c.retention_until is not null
              and c.finished_at >= %(since)s::timestamptz and c.finished_at < %(until)s::timestamptz
            union all
            select c.status, c.queued_at, c.started_at, c.duration_ms from tidemill.job_executions c
            where c.queue_id = q.id and c.status <> 'completed'
              and c.finished_at >= %(since)s::timestamptz and c.finished_at < %(until)s::timestamptz
        ) x
        group by 1, 2, 3) e
), deaths as materialized (
    select q.id as queue_id, d.n
    from tidemill.queues q
    cross join lateral (
        select count(*) as n from tidemill.dead_letter_queue x
        where x.queue_id = q.id and x.resolved in (false, true) and x.moved_at >= %(since)s::timestamptz and x.moved_at < %(until)s::timestamptz) d
    where d.n > 0
), counted as materialized (
    select u.queue_id, sum(u.arrived)::bigint as arrived, sum(u.completed)::bigint as completed, sum(u.failed)::bigint as failed,
           sum(u.dead)::bigint as dead
    from (
        select a.queue_id, a.n as arrived, 0 as completed, 0 as failed, 0 as dead from arrivals a
        union all
        select e.queue_id, 0, case when e.status = 'completed' then e.n else 0 end,
               case when e.status in ('failed', 'crashed', 'lease_expired') then e.n else 0 end, 0 from ends e
        union all
        select d.queue_id, 0, 0, 0, d.n from deaths d) u
    group by u.queue_id
    order by u.queue_id
), minutes as (
    insert into tidemill.queue_counters as c (queue_id, minute, arrived, completed, failed, dead)
    select n.queue_id, date_trunc('minute', %(since)s::timestamptz), n.arrived, n.completed, n.failed, n.dead from counted n
    on conflict (queue_id, minute) do update
    set arrived = c.arrived + excluded.arrived, completed = c.completed + excluded.completed, failed = c.failed + excluded.failed,
        dead = c.dead + excluded.dead
), hours as (
    insert into tidemill.queue_hours as c (queue_id, hour, arrived, completed, failed, dead)
    select n.queue_id, date_bin('1 hour', %(since)s::timestamptz, '2000-01-01Z'), n.arrived, n.completed, n.failed, n.dead from counted n
    on conflict (queue_id, hour) do update
    set arrived = c.arrived + excluded.arrived, completed = c.completed + excluded.completed, failed = c.failed + excluded.failed,
        dead = c.dead + excluded.dead
), totals as (
    insert into tidemill.queue_totals as c (queue_id, arrived, completed, failed, dead)
    select n.queue_id, n.arrived, n.completed, n.failed, n.dead from counted n
    on conflict (queue_id) do update
    set arrived = c.arrived + excluded.arrived, completed = c.completed + excluded.completed, failed = c.failed + excluded.failed,
        dead = c.dead + excluded.dead
), latencies as (
    insert into tidemill.queue_latencies as c (queue_id, slot, bucket, waits, runs)
    select b.queue_id, date_bin('5 minutes', %(since)s::timestamptz, '2000-01-01Z'), b.bucket, sum(b.waits), sum(b.runs)
    from (select e.queue_id, e.wait_bucket as bucket, e.n as waits, 0 as runs from ends e
          union all
          select e.queue_id, e.run_bucket, 0, e.n from ends e) b
    group by b.queue_id, b.bucket
    on conflict (queue_id, slot, bucket) do update set waits = c.waits + excluded.waits, runs = c.runs + excluded.runs
), types as (
    insert into tidemill.job_types as t (project_id, name, first_seen_at, last_seen_at)
    select distinct a.project_id, a.job_type, %(since)s::timestamptz, %(since)s::timestamptz from arrivals a
    on conflict (project_id, name) do update set last_seen_at = excluded.last_seen_at
    where t.last_seen_at < excluded.last_seen_at - interval '1 minute'
)
select coalesce(sum(n.arrived), 0)::bigint, coalesce(sum(n.completed), 0)::bigint, coalesce(sum(n.failed), 0)::bigint,
       coalesce(sum(n.dead), 0)::bigint
from counted n
