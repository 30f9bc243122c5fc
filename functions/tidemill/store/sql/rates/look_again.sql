-- Lanes that wait for a rate class are worth another look. In a statement after the one that changed the class, so that it sees what a claim that
-- was spending from it has blocked. Parameters: project_id uuid; name text; now timestamptz or null. At most 10,000 lanes; the others are looked at when
--   their time comes, within a minute where the class is paused. Rows: one: news written. Locks: none.
with news as (
    insert into tidemill.lane_news (queue_id, lane, priority, run_at)
    select l.queue_id, l.lane, l.priority, coalesce(%(now)s::timestamptz, statement_timestamp())
    from tidemill.queue_lanes l
    join tidemill.queues q on q.id = l.queue_id and q.project_id = %(project_id)s::uuid
    where l.rate_class = %(name)s::text and l.blocked_by = 'rate_class'
    limit 10000
    returning 1
)
select count(*) from news
