-- What happened lately in each queue of a project: the last five whole minutes that are counted, and the last hour before them. Parameters: project_id uuid;
-- name text or null (all). Rows: one per queue where something happened: name, arrived, completed, dead (5 minutes), failed_1h, dead_1h, counted_until;
-- and one with name null, for counted_until. Locks: none.
with until as materialized (
    select date_trunc('minute', least(s.folded_until, statement_timestamp())) as at from tidemill.counter_state s where s.id = 1
)
select q.name::text as name, sum(c.arrived) filter (where c.minute >= u.at - interval '5 minutes') as arrived,
       sum(c.completed) filter (where c.minute >= u.at - interval '5 minutes') as completed,
       sum(c.dead) filter (where c.minute >= u.at - interval '5 minutes') as dead,
       sum(c.failed) as failed_1h, sum(c.dead) as dead_1h, u.at as counted_until
from tidemill.queues q
cross join until u
cross join lateral (
    select i.* from tidemill.queue_counters i where i.queue_id = q.id and i.minute >= u.at - interval '1 hour' and i.minute < u.at
    order by i.minute limit 60) c
where q.project_id = %(project_id)s::uuid and (%(name)s::text is null or q.name = %(name)s::text)
group by q.name, u.at
union all
select null, 0, 0, 0, 0, 0, u.at from until u
