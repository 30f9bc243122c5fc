-- Fold: adds the news of dead letters to their kinds, and to what the project's webhook is to tell. Parameters: limit integer; now timestamptz or null.
-- Rows: one: how many rows of news. Any number may run at once: each takes news that nobody else has.
-- Locks: error_group_news (skip locked) -> error_groups -> error_group_hours -> webhook_news, by key.
with taken as (
    delete from tidemill.error_group_news n
    where n.id = any(array(select m.id from tidemill.error_group_news m order by m.id limit %(limit)s::integer for update skip locked))
    returning n.*
), folded as (
    insert into tidemill.error_groups as g (
        project_id, error_group, queue_id, job_type, error_class, message, open_count, total, first_seen_at, last_seen_at)
    select t.project_id, t.error_group, t.queue_id, t.job_type, min(t.error_class), coalesce(max(t.message), ''), sum(t.opened), sum(t.died),
           coalesce(min(t.first_at) filter (where t.died > 0), min(t.first_at)), coalesce(max(t.last_at) filter (where t.died > 0), max(t.last_at))
    from taken t
    group by t.project_id, t.error_group, t.queue_id, t.job_type
    order by t.project_id, t.error_group, t.queue_id, t.job_type
    on conflict (project_id, error_group, queue_id, job_type) do update
    set open_count = g.open_count + excluded.open_count, total = g.total + excluded.total, message = greatest(g.message, excluded.message),
        error_class = coalesce(g.error_class, excluded.error_class),
        first_seen_at = least(g.first_seen_at, excluded.first_seen_at), last_seen_at = greatest(g.last_seen_at, excluded.last_seen_at)
), hours as (
    insert into tidemill.error_group_hours as h (project_id, error_group, queue_id, job_type, hour, died)
    select t.project_id, t.error_group, t.queue_id, t.job_type, t.hour, sum(t.died)
    from taken t
    where t.died > 0
    group by t.project_id, t.error_group, t.queue_id, t.job_type, t.hour
    order by t.project_id, t.error_group, t.queue_id, t.job_type, t.hour
    on conflict (project_id, error_group, queue_id, job_type, hour) do update set died = h.died + excluded.died
), told as (
    insert into tidemill.webhook_news as w (project_id, event, key, waiting, due_at, first_at, last_at, about)
    select t.project_id, 'job.dead_letter', encode(t.error_group, 'hex'), sum(t.died), coalesce(%(now)s::timestamptz, statement_timestamp()),
           min(t.first_at), max(t.last_at),
           jsonb_build_object('error_class', min(t.error_class), 'message', max(t.message), 'queue_id', max(t.queue_id::text), 'job_type',
                              (array_agg(t.job_type order by t.queue_id::text desc))[1])
    from taken t
    where t.died > 0 and exists (
        select 1 from tidemill.webhooks h
        where h.project_id = t.project_id and not h.is_paused and 'job.dead_letter' = any(h.events)
          and (h.queues is null or (select q.name from tidemill.queues q where q.id = t.queue_id) = any(h.queues)))
    group by t.project_id, t.error_group
    order by t.project_id, t.error_group
    on conflict (project_id, event, key) do update
    set waiting = w.waiting + excluded.waiting, last_at = excluded.last_at, about = excluded.about,
        first_at = case when w.waiting = 0 then excluded.first_at else w.first_at end
)
select count(*) from taken
