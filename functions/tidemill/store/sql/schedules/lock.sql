-- Schedules by name, for a change. Parameters: project_id uuid; names text[]. Rows: its columns, with the names of queue and policy (null: gone).
-- Locks: schedules, by name.
select s.id::text, s.project_id::text, s.name::text, s.cron_expression, s.every_ms, s.timezone, s.on_gap::text, s.on_fold::text, s.on_missed::text,
       s.backfill_limit, s.overlap::text, s.starts_at, s.ends_at, s.jitter_ms, s.is_active, s.anchor_at, s.next_run_at, s.last_run_at,
       s.zone_data_release, s.declared_by, s.error, s.note, s.created_at, s.updated_at, s.job_type::text, s.payload_template, s.job,
       q.name::text as queue, p.name::text as retry_policy, s.retry_policy_id is not null as names_policy
from tidemill.scheduled_jobs s
left join tidemill.queues q on q.id = s.queue_id
left join tidemill.retry_policies p on p.id = s.retry_policy_id
where s.project_id = %(project_id)s::uuid and s.name = any(%(names)s::text[])
order by s.name
for no key update of s
