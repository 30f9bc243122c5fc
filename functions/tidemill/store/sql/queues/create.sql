-- A new queue. Parameters: id, project_id uuid; name text; fields text (a JSON object of the others; what it leaves out has its default);
--   policy_id uuid or null. Rows: its id; none if the name is taken. Locks: none.
insert into tidemill.queues as q (
    id, project_id, name, priority, weight, max_concurrency, on_saturated, is_paused, default_retry_policy_id, visibility_timeout_secs,
    max_unfinished_jobs, retention_completed_ms, retention_cancelled_ms, retention_dead_letter_ms, quarantine_after)
select %(id)s::uuid, %(project_id)s::uuid, %(name)s::text, coalesce(f.priority, 0::smallint), coalesce(f.weight, 1), f.max_concurrency,
       coalesce(f.on_saturated, 'queue'), coalesce(f.is_paused, false), %(policy_id)s::uuid, coalesce(f.visibility_timeout_secs, 60),
       f.max_unfinished_jobs, coalesce(f.retention_completed_ms, 604800000), coalesce(f.retention_cancelled_ms, 604800000),
       coalesce(f.retention_dead_letter_ms, 2592000000), coalesce(f.quarantine_after, 3)
from jsonb_to_record(%(fields)s::jsonb) as f (
    priority smallint, weight integer, max_concurrency integer, on_saturated tidemill.saturation_rule, is_paused boolean,
    visibility_timeout_secs integer, max_unfinished_jobs bigint, retention_completed_ms bigint, retention_cancelled_ms bigint,
    retention_dead_letter_ms bigint, quarantine_after integer)
on conflict (project_id, name) do nothing
returning q.id::text
