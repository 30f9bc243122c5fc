-- Leases of a job type that were claimed while it had no standing limit count from now on. Parameters: project_id uuid; job_type text.
-- Rows: one: how many. Locks: leases; the caller holds claims off (hold_claims.sql). Reads all leases and their jobs, once per limit.
with running as materialized (
    select l.job_id from tidemill.job_leases l
    cross join lateral (
        select 1 from tidemill.jobs j
        where j.id = l.job_id and j.project_id = %(project_id)s::uuid and j.job_type = %(job_type)s::text limit 1) j
    where l.type_key is null
), counted as (
    update tidemill.job_leases l
    set type_key = tidemill.type_key(%(project_id)s::uuid, %(job_type)s::text)
    from running r where l.job_id = r.job_id
    returning 1
)
select count(*) from counted
