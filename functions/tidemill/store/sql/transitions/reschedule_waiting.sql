-- Set a pending job's run_at or priority. Parameters: project_id uuid; job_id uuid; run_at timestamptz or null (keep); priority smallint or null (keep);
--   now timestamptz or null. Rows: one if it was pending (or set aside: dead letter, quarantined). Locks: jobs.
update tidemill.jobs j
set run_at = case when %(run_at)s::timestamptz is null then j.run_at
                  else greatest(%(run_at)s::timestamptz, coalesce(%(now)s::timestamptz, statement_timestamp())) end,
    priority = coalesce(%(priority)s::smallint, j.priority),
    updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid and j.phase = any(%(phases)s::tidemill.job_phase[])
returning j.id::text
