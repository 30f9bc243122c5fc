-- Jobs as the API shows them. Parameters: project_id uuid; job_ids uuid[]; payload boolean (else null instead of it).
-- Rows: one per job that the project has, in no order; JSON as text. Every join is a key look-up.
select s.id::text, s.job_type::text, s.queue::text, s.status::text as state, s.priority, s.run_at, s.attempt_count, s.max_attempts, s.fence,
       s.schema_version, s.is_held, s.idempotency_key, s.unique_window::text, s.unique_until, s.concurrency_key, s.concurrency_limit,
       coalesce(s.retry_policy, to_jsonb(p.name::text))::text as retry_policy, s.timeout_ms, s.partition_key, s.weight,
       s.rate_class::text, s.sticky_worker, encode(s.fingerprint, 'hex') as fingerprint, s.headers::text, s.tags, s.principal_id,
       s.correlation_id, s.traceparent, s.tracestate, s.batch_id::text, s.on_parent_failure::text, s.pending_parents, s.scheduled_job_id::text, s.scheduled_for, s.crash_count,
       s.progress_current, s.progress_total, s.progress_message, s.error_class, s.error_message, s.final_reason, s.retention_ms,
       s.locked_by::text as worker_id, s.locked_at as claimed_at, s.started_at, s.lease_expires_at, s.cancel_requested_at,
       s.created_at, s.updated_at, s.finalized_at,
       case when %(payload)s::boolean then (select j.payload::text from tidemill.jobs j where j.id = s.id) end as payload
from tidemill.job_states s
left join tidemill.retry_policies p on p.id = s.retry_policy_id
where s.id = any(%(job_ids)s::uuid[]) and s.project_id = %(project_id)s::uuid
