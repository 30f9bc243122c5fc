-- In how many seconds the next scheduled job of these queues is due, or a lane that waits at a gate is looked at again. Parameters: project_id uuid; queues text[]; horizon double precision (seconds
--   that are looked ahead). Rows: one: seconds (0 or less: due by now, since the last look), or null. Looks back 0.1 s for what came due between two
--   statements. Locks: none.
with queues as materialized (
    select q.id from tidemill.queues q where q.project_id = %(project_id)s::uuid and q.name = any(%(queues)s::text[]) and not q.is_paused
), next as (
    select d.run_at as at
    from queues q
    cross join lateral (select distinct i.queue_id, i.priority from tidemill.queue_levels i where i.queue_id = q.id) l
    cross join lateral (
        select e.run_at from tidemill.job_queue_entries e
        where e.queue_id = l.queue_id and e.lane = 0 and e.priority = l.priority and e.run_at > statement_timestamp() - interval '100 milliseconds'
          and e.run_at < statement_timestamp() + make_interval(secs => %(horizon)s::double precision)
        order by e.run_at
        limit 1
    ) d
    union all
    select w.look_at
    from queues q
    cross join lateral (
        select l.look_at from tidemill.queue_lanes l
        where l.queue_id = q.id and not l.is_ready and l.look_at > statement_timestamp() - interval '100 milliseconds'
          and l.look_at < statement_timestamp() + make_interval(secs => %(horizon)s::double precision)
        order by l.look_at
        limit 1
    ) w
    union all
    select n.run_at
    from queues q
    cross join lateral (
        select m.run_at from tidemill.lane_news m
        where m.queue_id = q.id and m.run_at < statement_timestamp() + make_interval(secs => %(horizon)s::double precision)
        order by m.id
        limit 1
    ) n
)
select extract(epoch from min(n.at) - clock_timestamp())::double precision from next n
