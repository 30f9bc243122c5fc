-- Schedules of a project as a caller sees them, by name. Parameters: project_id uuid; name text or null (that one); after text or null
-- (behind this name); limit integer; now timestamptz or null. Rows: the columns of lock.sql, where next_run_at counts what was made
-- ready ahead and last_run_at does not.
select s.id, s.project_id, s.name, s.cron_expression, s.every_ms, s.timezone, s.on_gap, s.on_fold, s.on_missed, s.backfill_limit, s.overlap,
       s.starts_at, s.ends_at, s.jitter_ms, s.is_active, s.anchor_at, coalesce(a.at, s.next_run_at) as next_run_at,
       case when s.last_run_at > n.now then l.at else s.last_run_at end as last_run_at,
       s.zone_data_release, s.declared_by, s.error, s.note, s.created_at, s.updated_at, s.job_type, s.payload_template, s.job,
       s.queue, s.retry_policy, s.names_policy
from (
    select s.id::text, s.project_id::text, s.name::text, s.cron_expression, s.every_ms, s.timezone, s.on_gap::text, s.on_fold::text, s.on_missed::text,
       s.backfill_limit, s.overlap::text, s.starts_at, s.ends_at, s.jitter_ms, s.is_active, s.anchor_at, s.next_run_at, s.last_run_at,
       s.zone_data_release, s.declared_by, s.error, s.note, s.created_at, s.updated_at, s.job_type::text, s.payload_template, s.job,
       q.name::text as queue, p.name::text as retry_policy, s.retry_policy_id is not null as names_policy
    from tidemill.scheduled_jobs s
    left join tidemill.queues q on q.id = s.queue_id
    left join tidemill.retry_policies p on p.id = s.retry_policy_id
    where s.project_id = %(project_id)s::uuid and (%(name)s::text is null or s.name = %(name)s::text)
      and (%(after)s::text is null or s.name > %(after)s::text)
    order by s.name
    limit %(limit)s::integer
) s
cross join (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) n
left join lateral (
    select min(j.scheduled_for) as at from tidemill.jobs j
    where s.is_active and j.scheduled_job_id = s.id::uuid and j.scheduled_for > n.now and j.phase <> 'cancelled') a on true
left join lateral (
    select max(e.nominal_at) as at from tidemill.schedule_events e
    where s.last_run_at > n.now and e.scheduled_job_id = s.id::uuid and e.kind = 'fired' and e.reason is distinct from 'by hand' and e.nominal_at <= n.now) l on true
order by s.name
