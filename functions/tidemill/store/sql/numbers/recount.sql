-- Recount: what was committed late into a minute that had been folded. Counts [since, until) of that minute again and adds what is missing, never less.
-- Parameters: since (the minute's beginning), until timestamptz; since_id, until_id uuid. Rows: one: how many were found late. Locks: the counters' rows.
with arrivals as materialized (
    select p.id as project_id, a.queue_id, a.job_type, a.n
    from tidemill.projects p
    cross join lateral (
        select j.queue_id, j.job_type::text as job_type, count(*) as n
        from tidemill.jobs j
        where j.project_id = p.id and j.id >= %(since_id)s::uuid and j.id < %(until_id)s::uuid
        group by j.queue_id, j.job_type) a
), counted as materialized (
    select q.id as queue_id, e.completed, e.failed, d.n as dead,
           coalesce((select sum(a.n) from arrivals a where a.queue_id = q.id), 0)::bigint as arrived
    from tidemill.queues q
    cross join lateral (
        select count(*) filter (where x.status = 'completed') as completed,
               count(*) filter (where x.status in ('failed', 'crashed', 'lease_expired')) as failed
        from (
            select c.status from tidemill.job_executions c
            where c.queue_id = q.id and c.status = 'completed' and c.retention_until is null
              and c.finished_at >= %(since)s::timestamptz and c.finished_at < %(until)s::timestamptz
            union all
            select c.status from tidemill.job_executions c
            where c.queue_id = q.id and c.status = 'completed' and c.retention_until is not null
              and c.finished_at >= %(since)s::timestamptz and c.finished_at < %(until)s::timestamptz
            union all
            select c.status from tidemill.job_executions c
            where c.queue_id = q.id and c.status <> 'completed'
              and c.finished_at >= %(since)s::timestamptz and c.finished_at < %(until)s::timestamptz) x) e
    cross join lateral (
        select count(*) as n from tidemill.dead_letter_queue x
        where x.queue_id = q.id and x.resolved in (false, true) and x.moved_at >= %(since)s::timestamptz and x.moved_at < %(until)s::timestamptz) d
), late as materialized (
    select n.queue_id, greatest(0, n.arrived - coalesce(c.arrived, 0)) as arrived, greatest(0, n.completed - coalesce(c.completed, 0)) as completed,
           greatest(0, n.failed - coalesce(c.failed, 0)) as failed, greatest(0, n.dead - coalesce(c.dead, 0)) as dead
    from counted n
    left join lateral (
        select k.* from tidemill.queue_counters k where k.queue_id = n.queue_id and k.minute = %(since)s::timestamptz limit 1) c on true
), missing as materialized (
    select l.* from late l where l.arrived + l.completed + l.failed + l.dead > 0 order by l.queue_id
), minutes as (
    insert into tidemill.queue_counters as c (queue_id, minute, arrived, completed, failed, dead)
    select m.queue_id, %(since)s::timestamptz, m.arrived, m.completed, m.failed, m.dead from missing m
    on conflict (queue_id, minute) do update
    set arrived = c.arrived + excluded.arrived, completed = c.completed + excluded.completed, failed = c.failed + excluded.failed,
        dead = c.dead + excluded.dead
), hours as (
    insert into tidemill.queue_hours as c (queue_id, hour, arrived, completed, failed, dead)
    select m.queue_id, date_bin('1 hour', %(since)s::timestamptz, '2000-01-01Z'), m.arrived, m.completed, m.failed, m.dead from missing m
    on conflict (queue_id, hour) do update
    set arrived = c.arrived + excluded.arrived, completed = c.completed + excluded.completed, failed = c.failed + excluded.failed,
        dead = c.dead + excluded.dead
), totals as (
    insert into tidemill.queue_totals as c (queue_id, arrived, completed, failed, dead)
    select m.queue_id, m.arrived, m.completed, m.failed, m.dead from missing m
    on conflict (queue_id) do update
    set arrived = c.arrived + excluded.arrived, completed = c.completed + excluded.completed, failed = c.failed + excluded.failed,
        dead = c.dead + excluded.dead
), types as (
    insert into tidemill.job_types as t (project_id, name, first_seen_at, last_seen_at)
    select distinct a.project_id, a.job_type, %(since)s::timestamptz, %(since)s::timestamptz from arrivals a
    on conflict (project_id, name) do nothing
)
select coalesce(sum(m.arrived + m.completed + m.failed + m.dead), 0)::bigint from missing m
