-- How many entries stand before a job's in its own lane (lane 0: the queue's jobs without gates), by priority and time. Parameters: job_id uuid;
--   limit integer: counts no further. Rows: one if the job has an entry. Locks: none.
select (
    select count(*) from (
        (select 1 from tidemill.job_queue_entries o
         where o.queue_id = e.queue_id and o.lane = e.lane and o.priority = e.priority and (o.run_at, o.job_id) < (e.run_at, e.job_id)
         limit %(limit)s::integer)
        union all
        (select 1 from (select distinct v.priority from tidemill.queue_levels v where v.queue_id = e.queue_id and v.priority > e.priority) v
         cross join lateral (
             select 1 from tidemill.job_queue_entries o
             where o.queue_id = e.queue_id and o.lane = e.lane and o.priority = v.priority and o.run_at <= statement_timestamp()
             limit %(limit)s::integer) h
         limit %(limit)s::integer)
        limit %(limit)s::integer) x)
from tidemill.jobs j
join tidemill.job_queue_entries e
    on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
where j.id = %(job_id)s::uuid
