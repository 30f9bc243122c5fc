-- Forgets what was to be told, as before a project's first webhook. Parameters: project_id uuid. Rows: none. Locks: webhook_news.
delete from tidemill.webhook_news n where n.project_id = %(project_id)s::uuid
