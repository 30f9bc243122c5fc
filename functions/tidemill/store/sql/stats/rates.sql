-- What happened lately in each queue of a project: in the four to five minutes before the counters' edge, and in the hour before it. Parameters: project_id uuid;
-- name text or null (all). Rows: one per queue where something happened: name, arrived, completed, dead (in `secs`), failed_1h, dead_1h, secs, counted_until;
-- and one with name null, for the last two. Locks: none.
with edge as materialized (
    select e.until, date_trunc('minute', e.until) - interval '4 minutes' as since
    from (select least(s.folded_until, statement_timestamp()) as until from tidemill.counter_state s where s.id = 1 and s.folded_until is not null) e
)
select q.name::text as name, sum(c.arrived) filter (where c.minute >= e.since) as arrived,
       sum(c.completed) filter (where c.minute >= e.since) as completed, sum(c.dead) filter (where c.minute >= e.since) as dead,
       sum(c.failed) as failed_1h, sum(c.dead) as dead_1h, extract(epoch from e.until - e.since)::double precision as secs, e.until as counted_until
from tidemill.queues q
cross join edge e
cross join lateral (
    select i.* from tidemill.queue_counters i
    where i.queue_id = q.id and i.minute >= date_trunc('minute', e.until) - interval '59 minutes' and i.minute <= e.until
    order by i.minute limit 60) c
where q.project_id = %(project_id)s::uuid and (%(name)s::text is null or q.name = %(name)s::text)
group by q.name, e.until, e.since
union all
select null, 0, 0, 0, 0, 0, extract(epoch from e.until - e.since)::double precision, e.until from edge e
