-- How the project's webhook stands, for the overview. Parameters: project_id uuid. Rows: at most one (is_paused, failing_since). Locks: none.
select w.is_paused, w.failing_since
from tidemill.webhooks w
where w.project_id = %(project_id)s::uuid
