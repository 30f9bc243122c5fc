-- A project's history in buckets of minutes or, where hourly, of hours. Parameters: project_id uuid; queue text or null (all); since, until timestamptz;
-- bucket interval; hourly boolean; most integer: counter rows, of which no more are read (the newest). Rows: one per bucket in which something
-- happened: at, arrived, completed, failed, dead, read (counter rows in all). Locks: none.
with rows as materialized (
    select * from (
        (select c.minute as at, c.arrived, c.completed, c.failed, c.dead
         from tidemill.queues q
         cross join lateral (
             select i.* from tidemill.queue_counters i
             where i.queue_id = q.id and i.minute >= %(since)s::timestamptz and i.minute < %(until)s::timestamptz order by i.minute desc) c
         where not %(hourly)s::boolean and q.project_id = %(project_id)s::uuid and (%(queue)s::text is null or q.name = %(queue)s::text)
         limit %(most)s::integer)
        union all
        (select c.hour, c.arrived, c.completed, c.failed, c.dead
         from tidemill.queues q
         cross join lateral (
             select i.* from tidemill.queue_hours i
             where i.queue_id = q.id and i.hour >= %(since)s::timestamptz and i.hour < %(until)s::timestamptz order by i.hour desc) c
         where %(hourly)s::boolean and q.project_id = %(project_id)s::uuid and (%(queue)s::text is null or q.name = %(queue)s::text)
         limit %(most)s::integer)) r
)
select date_bin(%(bucket)s::interval, r.at, '1970-01-01Z') as at, sum(r.arrived)::bigint as arrived, sum(r.completed)::bigint as completed,
       sum(r.failed)::bigint as failed, sum(r.dead)::bigint as dead, (select count(*) from rows) as read
from rows r
group by 1
order by 1
