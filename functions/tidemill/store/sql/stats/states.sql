-- How many of a project's jobs are in each state: every count stops at %(most)s, and then `better` has what the last samples or the counters say.
-- Parameters: project_id uuid; most integer; leases integer (of all projects, of which no more are looked at). Rows: one per state: state, count, better
-- (null: nothing better known). Locks: none. Index ranges only: phases are constants, or the partial index would not do.
with queues as materialized (
    select q.id, q.retention_completed_ms from tidemill.queues q where q.project_id = %(project_id)s::uuid
), levels as materialized (
    select distinct l.queue_id, l.priority from queues q join tidemill.queue_levels l on l.queue_id = q.id
), leases as materialized (
    select count(*) filter (where l.started_at is null) as claimed, count(*) filter (where l.started_at is not null) as running
    from (select i.queue_id, i.started_at from tidemill.job_leases i limit %(leases)s::integer) l
    join queues q on q.id = l.queue_id
), sampled as materialized (
    select sum(s.queued)::bigint as queued, sum(s.scheduled)::bigint as scheduled, sum(s.pending)::bigint as pending, sum(s.dead)::bigint as dead
    from queues q
    cross join lateral (
        select i.* from tidemill.queue_samples i where i.queue_id = q.id and i.at > statement_timestamp() - interval '10 minutes'
        order by i.at desc limit 1) s
)
select 'queued' as state, (
    select count(*) from (
        (select 1 from levels l cross join lateral (
            select 1 from tidemill.job_queue_entries e where e.queue_id = l.queue_id and e.lane = 0 and e.priority = l.priority
              and e.run_at <= statement_timestamp() limit %(most)s::integer) x)
        union all
        (select 1 from queues q cross join lateral (
            select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane <> 0 and e.run_at <= statement_timestamp()
            limit %(most)s::integer) x)
        limit %(most)s::integer) n) as count, (select s.queued from sampled s) as better
union all
select 'scheduled', (
    select count(*) from (
        (select 1 from levels l cross join lateral (
            select 1 from tidemill.job_queue_entries e where e.queue_id = l.queue_id and e.lane = 0 and e.priority = l.priority
              and e.run_at > statement_timestamp() limit %(most)s::integer) x)
        union all
        (select 1 from queues q cross join lateral (
            select 1 from tidemill.job_queue_entries e where e.queue_id = q.id and e.lane <> 0 and e.run_at > statement_timestamp()
            limit %(most)s::integer) x)
        limit %(most)s::integer) n), (select s.scheduled from sampled s)
union all
select 'claimed', l.claimed, null from leases l
union all
select 'running', l.running, null from leases l
union all
select 'pending', (
    select count(*) from (
        select 1 from tidemill.jobs j where j.project_id = %(project_id)s::uuid and j.phase = 'waiting' limit %(most)s::integer) n), (select s.pending from sampled s)
union all
select 'dead_letter', (
    select count(*) from (
        select 1 from tidemill.jobs j where j.project_id = %(project_id)s::uuid and j.phase = 'dead_letter' limit %(most)s::integer) n), (select s.dead from sampled s)
union all
select 'cancelled', (
    select count(*) from (
        select 1 from tidemill.jobs j where j.project_id = %(project_id)s::uuid and j.phase = 'cancelled' limit %(most)s::integer) n), null
union all
select 'quarantined', (
    select count(*) from (
        select 1 from tidemill.jobs j where j.project_id = %(project_id)s::uuid and j.phase = 'quarantined' limit %(most)s::integer) n), null
union all
select 'completed', (
    select count(*) from (
        (select 1 from queues q cross join lateral (
            select 1 from tidemill.job_executions x where x.queue_id = q.id and x.status = 'completed' and x.retention_until is null
            order by x.finished_at limit %(most)s::integer) c)
        union all
        (select 1 from queues q cross join lateral (
            select 1 from tidemill.job_executions x where x.queue_id = q.id and x.status = 'completed' and x.retention_until is not null
            order by x.finished_at limit %(most)s::integer) c)
        limit %(most)s::integer) n), (
    select sum(h.completed)::bigint from queues q
    cross join lateral (
        select c.completed from tidemill.queue_hours c
        where c.queue_id = q.id and c.hour >= statement_timestamp() - make_interval(secs => q.retention_completed_ms / 1000.0)
        order by c.hour desc limit 2200) h)
