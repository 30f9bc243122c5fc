-- Pauses, resumes, or starts a schedule again from now. Parameters: id uuid; is_active boolean; next_run_at timestamptz or null; release text;
-- note text or null; declared_by text or null (keep); now timestamptz. Rows: its id. Locks: schedule (held already).
update tidemill.scheduled_jobs s
set is_active = %(is_active)s, next_run_at = %(next_run_at)s, zone_data_release = %(release)s, note = %(note)s, error = null,
    declared_by = coalesce(%(declared_by)s, s.declared_by), updated_at = %(now)s
where s.id = %(id)s::uuid
returning s.id::text
