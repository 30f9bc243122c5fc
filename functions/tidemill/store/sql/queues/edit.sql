-- Change a queue. Parameters: project_id uuid; name text; fields text (a JSON object: what it leaves out stays, and null empties where that is
--   allowed); sets_policy boolean; policy_id uuid or null. Rows: its id, if the project has it. Locks: queue.
update tidemill.queues q
set priority = coalesce(f.priority, q.priority), weight = coalesce(f.weight, q.weight),
    max_concurrency = case when g.given ? 'max_concurrency' then f.max_concurrency else q.max_concurrency end,
    on_saturated = coalesce(f.on_saturated, q.on_saturated), is_paused = coalesce(f.is_paused, q.is_paused),
    default_retry_policy_id = case when %(sets_policy)s::boolean then %(policy_id)s::uuid else q.default_retry_policy_id end,
    visibility_timeout_secs = coalesce(f.visibility_timeout_secs, q.visibility_timeout_secs),
    max_unfinished_jobs = case when g.given ? 'max_unfinished_jobs' then f.max_unfinished_jobs else q.max_unfinished_jobs end,
    retention_completed_ms = coalesce(f.retention_completed_ms, q.retention_completed_ms),
    retention_cancelled_ms = coalesce(f.retention_cancelled_ms, q.retention_cancelled_ms),
    retention_dead_letter_ms = coalesce(f.retention_dead_letter_ms, q.retention_dead_letter_ms),
    quarantine_after = coalesce(f.quarantine_after, q.quarantine_after), updated_at = statement_timestamp()
from (select %(fields)s::jsonb as given) g
cross join lateral jsonb_to_record(g.given) as f (
    priority smallint, weight integer, max_concurrency integer, on_saturated tidemill.saturation_rule, is_paused boolean,
    visibility_timeout_secs integer, max_unfinished_jobs bigint, retention_completed_ms bigint, retention_cancelled_ms bigint,
    retention_dead_letter_ms bigint, quarantine_after integer)
where q.project_id = %(project_id)s::uuid and q.name = %(name)s::text
returning q.id::text
