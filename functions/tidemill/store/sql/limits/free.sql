-- Lanes that wait for a job type's standing limit are worth another look, in every queue that has some. Parameters: project_id uuid; job_type text. At most
--   10,000 lanes are asked for their queues; those of others are looked at when their time comes. Rows: one: news written. Locks: none.
with news as (
    insert into tidemill.lane_news (queue_id, limit_keys)
    select distinct l.queue_id, array[k.key]
    from (select tidemill.type_key(%(project_id)s::uuid, %(job_type)s::text) as key offset 0) k
    cross join lateral (select o.queue_id from tidemill.queue_lanes o where o.type_key = k.key limit 10000) l
    returning 1
)
select count(*) from news
