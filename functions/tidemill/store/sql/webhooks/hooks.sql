-- The webhooks of these projects with the secrets that sign now, the newest first. Parameters: project_ids uuid[]; now timestamptz or null.
-- Rows: project_id, url, is_paused, secrets bytea[], now. Locks: none.
select w.project_id::text, w.url, w.is_paused, s.secrets, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
from tidemill.webhooks w
cross join lateral (
    select array_agg(i.secret order by i.ends_at desc nulls first) as secrets
    from tidemill.webhook_secrets i
    where i.project_id = w.project_id and (i.ends_at is null or i.ends_at > coalesce(%(now)s::timestamptz, statement_timestamp()))) s
where w.project_id = any(%(project_ids)s::uuid[]) and s.secrets is not null
