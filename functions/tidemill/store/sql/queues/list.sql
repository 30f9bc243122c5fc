-- A project's queues by name, or one of them. Parameters: project_id uuid; name text or null (all); after text or null (exclusive); limit integer.
-- Rows: at most limit. Locks: none.
select q.id::text, q.name::text, q.priority, q.weight, q.max_concurrency, q.on_saturated::text, q.is_paused, q.is_closed,
       p.name::text as default_retry_policy, q.visibility_timeout_secs, q.max_unfinished_jobs, q.retention_completed_ms,
       q.retention_cancelled_ms, q.retention_dead_letter_ms, q.quarantine_after, q.created_at, q.updated_at
from tidemill.queues q
left join tidemill.retry_policies p on p.id = q.default_retry_policy_id
where q.project_id = %(project_id)s::uuid and (%(name)s::text is null or q.name = %(name)s::text)
  and (%(after)s::text is null or q.name > %(after)s::text)
order by q.name
limit %(limit)s::integer
