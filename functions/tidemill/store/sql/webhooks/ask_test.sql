-- Asks for a test call. Parameters: project_id uuid; key text. Rows: one: last_at. Locks: none.
insert into tidemill.webhook_news as n (project_id, event, key, waiting, due_at, first_at, last_at, about)
values (%(project_id)s::uuid, 'webhook.test', %(key)s::text, 1, clock_timestamp(), clock_timestamp(), clock_timestamp(),
        jsonb_build_object('test', %(key)s::text))
returning n.last_at
