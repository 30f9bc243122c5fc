-- Withdraw what an operation asked of leased jobs: to stop. Parameters: project_id, operation_id uuid; job_ids uuid[] (sorted); now timestamptz or null (not used).
-- Rows: job_id, 'moved', 0 of each that is still leased and was asked by nobody else before. Locks: leases (by job).
with found as materialized (
    select l.job_id
    from tidemill.operation_jobs a
    join tidemill.job_leases l on l.job_id = a.job_id and l.cancel_requested_at = a.at
    join tidemill.jobs j on j.id = a.job_id and j.project_id = %(project_id)s::uuid
    where a.operation_id = %(operation_id)s::uuid and a.job_id = any(%(job_ids)s::uuid[]) and a.was in ('claimed', 'running')
    order by l.job_id for update of l
), asked as (
    update tidemill.job_leases l set cancel_requested_at = null
    from found f
    where l.job_id = f.job_id
    returning l.job_id
)
select a.job_id::text, 'moved' as outcome, 0::smallint as traits from asked a
where coalesce(%(now)s::timestamptz, statement_timestamp()) is not null
