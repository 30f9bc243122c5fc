-- Notes a call that is about to be made, and leaves the webhook in peace for a while. Parameters: id uuid (its job's); project_id uuid; event text;
-- things integer; quiet_secs integer; now timestamptz. Rows: none. Locks: webhooks (held) -> webhook_deliveries (insert).
with noted as (
    update tidemill.webhooks w set quiet_until = %(now)s::timestamptz + make_interval(secs => %(quiet_secs)s::integer)
    where w.project_id = %(project_id)s::uuid
)
insert into tidemill.webhook_deliveries (id, project_id, event, things, created_at)
values (%(id)s::uuid, %(project_id)s::uuid, %(event)s::text, %(things)s::integer, %(now)s::timestamptz)
