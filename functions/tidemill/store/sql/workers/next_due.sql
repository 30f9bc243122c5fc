-- In how many seconds the next scheduled job of these queues is due, or a lane that waits for its next job or a rate class is looked at again. Parameters:
--   project_id uuid; queues text[]; horizon double precision (seconds that are looked ahead). Rows: one: seconds (0 or less: due by now, since the last look),
--   or null. Looks back 0.1 s for what came due between two statements. Locks: none.
-- Lanes of busy limits are told of by acks, and looked at every few seconds for safety only: of a thousand of them one is always about to be, and claims that
-- were made for each kept the database busy. A thousand are passed over; what is behind them waits for the next claim.
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
        select v.look_at
        from (select l.look_at, l.blocked_by from tidemill.queue_lanes l
              where l.queue_id = q.id and not l.is_ready and l.look_at > statement_timestamp() - interval '100 milliseconds'
                and l.look_at < statement_timestamp() + make_interval(secs => %(horizon)s::double precision)
              order by l.look_at
              limit 1000) v
        where v.blocked_by is distinct from 'concurrency_key'
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
