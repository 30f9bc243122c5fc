-- A new schedule, unless the name is taken. Parameters: id, project_id, queue_id uuid; retry_policy_id uuid or null; name, cron, timezone, job_type
-- text; every_ms, jitter_ms bigint; payload, job text (JSON); on_missed, overlap, on_gap, on_fold text; backfill_limit integer; is_active boolean;
-- starts_at, ends_at, anchor_at, next_run_at, now timestamptz; release, declared_by text. Rows: its id, or none if another has the name.
insert into tidemill.scheduled_jobs (
    id, project_id, queue_id, name, cron_expression, every_ms, timezone, job_type, payload_template, job, retry_policy_id, is_active, on_missed,
    backfill_limit, overlap, on_gap, on_fold, starts_at, ends_at, jitter_ms, anchor_at, zone_data_release, declared_by, next_run_at, created_at,
    updated_at)
values (
    %(id)s::uuid, %(project_id)s::uuid, %(queue_id)s::uuid, %(name)s, %(cron)s, %(every_ms)s, %(timezone)s, %(job_type)s, %(payload)s::jsonb,
    %(job)s::jsonb, %(retry_policy_id)s::uuid, %(is_active)s, %(on_missed)s::tidemill.missed_rule, %(backfill_limit)s,
    %(overlap)s::tidemill.overlap_rule, %(on_gap)s::tidemill.gap_rule, %(on_fold)s::tidemill.fold_rule, %(starts_at)s, %(ends_at)s, %(jitter_ms)s,
    %(anchor_at)s, %(release)s, %(declared_by)s, %(next_run_at)s, %(now)s, %(now)s)
on conflict (project_id, name) do nothing
returning id::text
