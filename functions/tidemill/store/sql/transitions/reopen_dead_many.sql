-- Open dead letters again that an operation has discarded. Parameters: project_id, operation_id uuid; job_ids uuid[] (sorted); now timestamptz or null (not used).
-- Rows: job_id, 'moved', 0 of each whose job is still dead of that death. Locks: jobs (by id, share) -> dead_letter_queue.
with found as materialized (
    select j.id, j.finalized_at
    from tidemill.jobs j
    where j.id = any(array(
        select a.job_id from tidemill.operation_jobs a
        where a.operation_id = %(operation_id)s::uuid and a.job_id = any(%(job_ids)s::uuid[]) and a.was = 'dead_letter'))
      and j.project_id = %(project_id)s::uuid and j.phase = 'dead_letter'
    order by j.id for share of j
), opened as (
    update tidemill.dead_letter_queue d
    set resolved = false, resolved_at = null, resolved_by = null, resolution_action = null
    from found f
    where d.job_id = f.id and d.resolution_action = 'discard' and d.moved_at >= f.finalized_at
    returning d.job_id
)
select distinct o.job_id::text, 'moved' as outcome, 0::smallint as traits from opened o
where coalesce(%(now)s::timestamptz, statement_timestamp()) is not null
