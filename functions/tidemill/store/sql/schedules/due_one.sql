-- One schedule, if it is (still) due before now + ahead_ms and no other pass holds it. Parameters: id uuid; ahead_ms bigint;
-- now timestamptz or null. Rows: the columns of lock.sql, and now. Locks: schedule (skip locked).
select s.id::text, s.project_id::text, s.name::text, s.cron_expression, s.every_ms, s.timezone, s.on_gap::text, s.on_fold::text, s.on_missed::text,
       s.backfill_limit, s.overlap::text, s.starts_at, s.ends_at, s.jitter_ms, s.is_active, s.anchor_at, s.next_run_at, s.last_run_at,
       s.zone_data_release, s.declared_by, s.error, s.note, s.created_at, s.updated_at, s.job_type::text, s.payload_template, s.job,
       q.name::text as queue, p.name::text as retry_policy, s.retry_policy_id is not null as names_policy,
       coalesce(%(now)s::timestamptz, statement_timestamp()) as now
from tidemill.scheduled_jobs s
left join tidemill.queues q on q.id = s.queue_id
left join tidemill.retry_policies p on p.id = s.retry_policy_id
where s.id = %(id)s::uuid and s.is_active
  and s.next_run_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) + make_interval(secs => %(ahead_ms)s::bigint / 1000.0)
for no key update of s skip locked
