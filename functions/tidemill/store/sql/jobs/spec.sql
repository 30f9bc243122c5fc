-- A stored job as create fields, for a fresh copy: all but its keys, times and parents. Parameters: project_id uuid; job_id uuid.
-- Rows: one jsonb object.
select jsonb_build_object(
    'job_type', j.job_type, 'queue', q.name, 'payload', j.payload, 'schema_version', j.schema_version, 'priority', j.priority,
    'retry_policy', coalesce(j.retry_policy, to_jsonb(p.name::text)), 'max_attempts', j.max_attempts_override, 'timeout_ms', j.timeout_ms,
    'concurrency', case when j.concurrency_limit is not null
                        then jsonb_build_object('limit', j.concurrency_limit, 'key', j.concurrency_key) end,
    'partition_key', j.partition_key, 'weight', nullif(j.weight, 1), 'rate_class', j.rate_class, 'sticky_worker', j.sticky_worker,
    'tags', to_jsonb(j.tags), 'headers', j.headers, 'traceparent', j.traceparent, 'tracestate', j.tracestate, 'retention_ms', j.retention_ms)
from tidemill.jobs j
join tidemill.queues q on q.id = j.queue_id
left join tidemill.retry_policies p on p.id = j.retry_policy_id
where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid
