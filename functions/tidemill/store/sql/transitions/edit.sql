-- Change what a job carries, unless it is leased or has ended for good. Parameters: project_id uuid; job_id uuid; payload text (JSON) or null (keep);
--   tags text[] or null (keep; empty = none); schema_version integer or null (keep); now timestamptz or null.
-- Rows: one if it could be edited. Locks: entry -> jobs (the entry's lock keeps a claim away meanwhile).
with entry as (
    select e.job_id
    from tidemill.jobs j
    join tidemill.job_queue_entries e on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
    where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid
    for update of e
)
update tidemill.jobs j
set payload = coalesce(%(payload)s::jsonb, j.payload),
    tags = case when %(tags)s::text[] is null then j.tags when cardinality(%(tags)s::text[]) = 0 then null else %(tags)s::text[] end,
    schema_version = coalesce(%(schema_version)s::integer, j.schema_version),
    -- what was counted for another payload; a quarantined job keeps the fingerprint that it is released with
    fingerprint = case when %(payload)s::jsonb is null or j.phase = 'quarantined' then j.fingerprint end,
    updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid
  and (j.phase in ('waiting', 'dead_letter', 'quarantined') or j.id in (select e.job_id from entry e))
returning j.id::text
