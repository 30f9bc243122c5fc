-- In how many seconds the next scheduled job of these queues is due. Parameters: project_id uuid; queues text[]; horizon double precision (seconds
--   that are looked ahead). Rows: one: seconds (0 or less: due by now, since the last look), or null. Looks back 0.1 s for what came due between two
--   statements. Locks: none.
select extract(epoch from min(d.run_at) - clock_timestamp())::double precision
from tidemill.queues q
cross join lateral (select distinct i.queue_id, i.priority from tidemill.queue_levels i where i.queue_id = q.id) l
cross join lateral (
    select e.run_at from tidemill.job_queue_entries e
    where e.queue_id = l.queue_id and e.priority = l.priority and e.run_at > statement_timestamp() - interval '100 milliseconds'
      and e.run_at < statement_timestamp() + make_interval(secs => %(horizon)s::double precision)
    order by e.run_at
    limit 1
) d
where q.project_id = %(project_id)s::uuid and q.name = any(%(queues)s::text[]) and not q.is_paused
