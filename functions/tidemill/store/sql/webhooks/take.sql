-- Takes what is due of one event of a project, the longest due first: it is due again after `again_secs`, if it happens again.
-- Parameters: project_id uuid; event text; again_secs integer; limit integer; now timestamptz.
-- Rows: at most limit: key, count, is_new, first_at, last_at, about; in the order in which they were due. Locks: webhook_news.
with due as materialized (
    select n.ctid, n.key, n.waiting, n.is_told, n.due_at, n.first_at, n.last_at, n.about
    from tidemill.webhook_news n
    where n.project_id = %(project_id)s::uuid and n.event = %(event)s::text and n.waiting > 0 and n.due_at <= %(now)s::timestamptz
    order by n.due_at, n.key
    limit %(limit)s::integer
    for update
), taken as (
    update tidemill.webhook_news n
    set waiting = 0, is_told = true, due_at = %(now)s::timestamptz + make_interval(secs => %(again_secs)s::integer)
    where n.ctid = any(array(select d.ctid from due d)) -- a join would take all rows for each where the planner knows no numbers
)
select d.key, d.waiting, not d.is_told as is_new, d.first_at, d.last_at, d.about
from due d
order by d.due_at, d.key
