-- The webhooks that these calls go to, with the secrets that sign now, the newest first. A call of a webhook that has been removed goes nowhere,
-- also where the project has another one by now. Parameters: call_ids uuid[]; now timestamptz or null.
-- Rows: call id, project_id, url, is_paused, secrets bytea[], now; none for a call that goes nowhere. Locks: none.
select d.id::text, w.project_id::text, w.url, w.is_paused, s.secrets, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
from tidemill.webhook_deliveries d
join tidemill.webhooks w on w.project_id = d.project_id
cross join lateral (
    select array_agg(i.secret order by i.ends_at desc nulls first) as secrets
    from tidemill.webhook_secrets i
    where i.project_id = w.project_id and (i.ends_at is null or i.ends_at > coalesce(%(now)s::timestamptz, statement_timestamp()))) s
where d.id = any(%(call_ids)s::uuid[]) and s.secrets is not null
