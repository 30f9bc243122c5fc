-- Jobs whose lane nobody knows: the one that told of it was deleted or moved before a claim heard (0020 hears what such a one leaves behind). Tells of each
-- lane that is unknown, or known only from a later job on. Steps from lane to lane in the index; takes no lock that anybody waits for.
insert into tidemill.lane_news (queue_id, lane, priority, run_at)
with recursive fronts as (
    (select e.queue_id, e.lane, e.priority, e.run_at from tidemill.job_queue_entries e
     order by e.queue_id, e.lane, e.priority, e.run_at, e.job_id limit 1)
    union all
    select n.queue_id, n.lane, n.priority, n.run_at
    from fronts f
    cross join lateral (
        select e.queue_id, e.lane, e.priority, e.run_at from tidemill.job_queue_entries e
        where (e.queue_id, e.lane, e.priority) > (f.queue_id, f.lane, f.priority)
        order by e.queue_id, e.lane, e.priority, e.run_at, e.job_id limit 1) n
)
select f.queue_id, f.lane, f.priority, f.run_at from fronts f
where f.lane <> 0
  and not exists (
      select 1 from tidemill.queue_lanes l
      where l.queue_id = f.queue_id and l.lane = f.lane and l.priority = f.priority and l.due_at <= f.run_at);
