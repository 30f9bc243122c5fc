-- The project's webhook. Parameters: project_id uuid; most integer. Rows: at most one; waiting: kinds of things not told yet, counted up to `most`;
-- old_secret_until: until when a rotated secret still signs. Locks: none.
select w.url, w.events, w.queues, w.is_paused, w.failing_since, w.failed_attempts, w.last_error, w.last_status, w.last_failure_at, w.last_success_at,
       w.created_at, w.updated_at,
       (select count(*) from (select 1 from tidemill.webhook_news n
                              where n.project_id = w.project_id and n.waiting > 0 limit %(most)s::integer) x) as waiting,
       (select max(s.ends_at) from tidemill.webhook_secrets s where s.project_id = w.project_id and s.ends_at > statement_timestamp()) as old_secret_until
from tidemill.webhooks w
where w.project_id = %(project_id)s::uuid
