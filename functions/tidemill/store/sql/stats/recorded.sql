-- What a simulation of a queue starts from: the attempts that ended within the last hour (the newest first), and the jobs that are due and still wait.
-- Parameters: queue_id uuid; ended integer, waiting integer: of which no more are read. Rows: due_at, started_at, run_ms (both null for one that waits),
-- partition_key, job_type, priority, cost, rate_class, concurrency_key, concurrency_limit. Locks: none. Index ranges and keys only.
with attempts as materialized (
    select x.* from (
        (select c.job_id, c.queued_at, c.started_at, c.duration_ms, c.finished_at from tidemill.job_executions c
         where c.queue_id = %(queue_id)s::uuid and c.status = 'completed' and c.retention_until is null
           and c.finished_at > statement_timestamp() - interval '1 hour' order by c.finished_at desc limit %(ended)s::integer)
        union all
        (select c.job_id, c.queued_at, c.started_at, c.duration_ms, c.finished_at from tidemill.job_executions c
         where c.queue_id = %(queue_id)s::uuid and c.status = 'completed' and c.retention_until is not null
           and c.finished_at > statement_timestamp() - interval '1 hour' order by c.finished_at desc limit %(ended)s::integer)
        union all
        (select c.job_id, c.queued_at, c.started_at, c.duration_ms, c.finished_at from tidemill.job_executions c
         where c.queue_id = %(queue_id)s::uuid and c.status <> 'completed'
           and c.finished_at > statement_timestamp() - interval '1 hour' order by c.finished_at desc limit %(ended)s::integer)) x
    order by x.finished_at desc limit %(ended)s::integer
), due as materialized (
    select e.job_id, e.run_at from (
        (select i.job_id, i.run_at from (select distinct l.priority from tidemill.queue_levels l where l.queue_id = %(queue_id)s::uuid) v
         cross join lateral (
             select e.job_id, e.run_at from tidemill.job_queue_entries e
             where e.queue_id = %(queue_id)s::uuid and e.lane = 0 and e.priority = v.priority and e.run_at <= statement_timestamp()
             order by e.run_at limit %(waiting)s::integer) i)
        union all
        (select e.job_id, e.run_at from tidemill.job_queue_entries e
         where e.queue_id = %(queue_id)s::uuid and e.lane <> 0 and e.run_at <= statement_timestamp()
         order by e.run_at limit %(waiting)s::integer)) e
    limit %(waiting)s::integer
)
select a.queued_at as due_at, a.started_at, a.duration_ms as run_ms, coalesce(j.partition_key, '') as partition_key, j.job_type::text, j.priority,
       j.weight as cost, j.rate_class::text, j.concurrency_key, j.concurrency_limit
from attempts a
cross join lateral (select i.* from tidemill.jobs i where i.id = a.job_id limit 1) j
union all
select d.run_at, null, null, coalesce(j.partition_key, ''), j.job_type::text, j.priority, j.weight, j.rate_class::text, j.concurrency_key, j.concurrency_limit
from due d
cross join lateral (select i.* from tidemill.jobs i where i.id = d.job_id limit 1) j
