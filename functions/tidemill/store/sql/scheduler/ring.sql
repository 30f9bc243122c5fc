-- Promote due: wakes sleepers of queues that have due jobs, and counts due jobs (bounded). Parameters: limit integer; since timestamptz or null (what came
--   due before, an earlier pass has rung for; never more than 90 s are looked back); now timestamptz or null.
-- Rows: one: due (at most limit), rung, the instant up to which was looked. Nothing stands between a due job and a worker; this only shortens the wait of sleepers. Locks: sleepers (skip locked).
with levels as materialized (
    select distinct l.queue_id, l.priority from tidemill.queue_levels l order by l.queue_id, l.priority limit 10000
), due as materialized (
    select d.queue_id
    from levels l
    cross join lateral (
        select e.queue_id from tidemill.job_queue_entries e
        where e.queue_id = l.queue_id and e.lane = 0 and e.priority = l.priority and e.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
          and e.run_at > greatest(%(since)s::timestamptz, coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '90 seconds')
        limit %(limit)s::integer
    ) d
    union all
    -- queue by queue, by the index that claims read
    (select l.queue_id
     from (select distinct v.queue_id from levels v) q
     cross join lateral (
         select n.queue_id from tidemill.queue_lanes n
         where n.queue_id = q.queue_id and not n.is_ready and n.look_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
           and n.look_at > greatest(%(since)s::timestamptz, coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '90 seconds')
         limit %(limit)s::integer) l
     limit %(limit)s::integer)
    limit %(limit)s::integer
), rung as (
    delete from tidemill.queue_sleepers s
    where (s.queue_id, s.worker_id) in (
        select w.queue_id, w.worker_id from tidemill.queue_sleepers w
        where w.queue_id in (select d.queue_id from due d) limit 1000 for update skip locked)
    returning s.worker_id
)
select (select count(*) from due) as due, (select count(pg_notify('tidemill_' || replace(r.worker_id::text, '-', ''), '')) from rung r) as rung,
       coalesce(%(now)s::timestamptz, statement_timestamp()) as looked_until
