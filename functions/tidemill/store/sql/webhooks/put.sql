-- Makes the webhook what it should be. A new address, or going on after a pause, starts with a clean record.
-- Parameters: project_id uuid; url text; events text[]; queues text[] or null; is_paused boolean or null (as it is; new: false).
-- Rows: one: is_new. Locks: webhooks.
insert into tidemill.webhooks as w (project_id, url, events, queues, is_paused)
values (%(project_id)s::uuid, %(url)s::text, %(events)s::text[], %(queues)s::text[], coalesce(%(is_paused)s::boolean, false))
on conflict (project_id) do update
set url = excluded.url, events = excluded.events, queues = excluded.queues, is_paused = coalesce(%(is_paused)s::boolean, w.is_paused),
    updated_at = clock_timestamp(),
    failing_since = case when w.url = excluded.url and not (w.is_paused and %(is_paused)s::boolean is false) then w.failing_since end,
    failed_attempts = case when w.url = excluded.url and not (w.is_paused and %(is_paused)s::boolean is false) then w.failed_attempts else 0 end,
    last_error = case when w.url = excluded.url then w.last_error end,
    last_status = case when w.url = excluded.url then w.last_status end,
    quiet_until = least(w.quiet_until, clock_timestamp())
returning w.xmax = 0 as is_new
