-- The webhook that has waited longest with something to tell, locked. Parameters: now timestamptz or null.
-- Rows: at most one: project_id, the event to tell, now, is it failing. One that another pass has is left to it. Locks: webhooks (skip locked).
select w.project_id::text, n.event, coalesce(%(now)s::timestamptz, statement_timestamp()) as now, w.failing_since is not null as is_failing
from tidemill.webhooks w
cross join lateral (
    select i.event, i.due_at from tidemill.webhook_news i
    where i.project_id = w.project_id and i.waiting > 0 and i.due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
      and (not w.is_paused or i.event = 'webhook.test')
    order by i.due_at
    limit 1) n
where w.quiet_until <= coalesce(%(now)s::timestamptz, statement_timestamp())
order by n.due_at
limit 1
for update of w skip locked
