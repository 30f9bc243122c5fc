-- Fold: adds the news of dead letters to their kinds. Parameters: limit integer. Rows: one: how many rows of news.
-- Any number may run at once: each takes news that nobody else has. Locks: error_group_news (skip locked) -> error_groups -> error_group_hours, by key.
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
)
select count(*) from taken
