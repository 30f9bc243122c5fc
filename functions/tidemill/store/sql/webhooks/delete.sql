-- Removes the webhook, its secrets (by reference) and what it would have told. Parameters: project_id uuid. Rows: one if there was one.
-- Locks: webhooks -> webhook_news -> webhook_deliveries.
with gone as (
    delete from tidemill.webhooks w where w.project_id = %(project_id)s::uuid returning w.project_id
), news as (
    delete from tidemill.webhook_news n where n.project_id = %(project_id)s::uuid
), deliveries as (
    delete from tidemill.webhook_deliveries d where d.project_id = %(project_id)s::uuid
)
select g.project_id::text from gone g
