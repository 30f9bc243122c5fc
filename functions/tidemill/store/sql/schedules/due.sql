-- Schedules with an occurrence that nobody has decided about and that lies before now + ahead_ms, earliest first.
-- Parameters: after_at timestamptz, after_id uuid (start behind these; null = from the first); ahead_ms bigint; only uuid or null (that
-- one); limit integer; now timestamptz or null. Rows: the columns of lock.sql, and now. Locks: schedules (skip locked): who comes second skips.
select s.id::text, s.project_id::text, s.name::text, s.cron_expression, s.every_ms, s.timezone, s.on_gap::text, s.on_fold::text, s.on_missed::text,
       s.backfill_limit, s.overlap::text, s.starts_at, s.ends_at, s.jitter_ms, s.is_active, s.anchor_at, s.next_run_at, s.last_run_at,
       s.zone_data_release, s.declared_by, s.error, s.note, s.created_at, s.updated_at, s.job_type::text, s.payload_template, s.job,
       q.name::text as queue, p.name::text as retry_policy, s.retry_policy_id is not null as names_policy,
       coalesce(%(now)s::timestamptz, statement_timestamp()) as now
from tidemill.scheduled_jobs s
left join tidemill.queues q on q.id = s.queue_id
left join tidemill.retry_policies p on p.id = s.retry_policy_id
where s.is_active
  and s.next_run_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) + make_interval(secs => %(ahead_ms)s::bigint / 1000.0)
  and (%(after_at)s::timestamptz is null or (s.next_run_at, s.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid))
  and (%(only)s::uuid is null or s.id = %(only)s::uuid)
order by s.next_run_at, s.id
limit %(limit)s::integer
for no key update of s skip locked
