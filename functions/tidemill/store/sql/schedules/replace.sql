-- A schedule's new definition; what was wrong with it and notes are gone. Parameters: as in create.sql, without project and name. Rows: its id.
-- Locks: schedule (held already).
update tidemill.scheduled_jobs s
set queue_id = %(queue_id)s::uuid, cron_expression = %(cron)s, every_ms = %(every_ms)s, timezone = %(timezone)s, job_type = %(job_type)s,
    payload_template = %(payload)s::jsonb, job = %(job)s::jsonb, retry_policy_id = %(retry_policy_id)s::uuid, is_active = %(is_active)s,
    on_missed = %(on_missed)s::tidemill.missed_rule, backfill_limit = %(backfill_limit)s, overlap = %(overlap)s::tidemill.overlap_rule,
    on_gap = %(on_gap)s::tidemill.gap_rule, on_fold = %(on_fold)s::tidemill.fold_rule, starts_at = %(starts_at)s, ends_at = %(ends_at)s,
    jitter_ms = %(jitter_ms)s, anchor_at = %(anchor_at)s, zone_data_release = %(release)s,
    declared_by = coalesce(%(declared_by)s, s.declared_by), next_run_at = %(next_run_at)s, error = null, note = null, updated_at = %(now)s
where s.id = %(id)s::uuid
returning s.id::text
