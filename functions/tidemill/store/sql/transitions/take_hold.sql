-- Takes a dead job's unique key again before it is retried. Parameters: project_id uuid; job_id uuid; now timestamptz or null.
-- Rows: the job that holds the key now (ours if it was free); none if the job has no key that a waiting job holds. Locks: unique_holds.
insert into tidemill.unique_holds as h (project_id, kind, key, job_id)
select j.project_id, 'unique', j.unique_key, j.id
from tidemill.jobs j
where j.id = %(job_id)s::uuid and j.project_id = %(project_id)s::uuid and j.phase = 'dead_letter' and j.unique_window in ('pending', 'running')
on conflict (project_id, kind, key) do update
set job_id = case when h.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) then excluded.job_id else h.job_id end,
    expires_at = case when h.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) then null else h.expires_at end
returning h.job_id::text
