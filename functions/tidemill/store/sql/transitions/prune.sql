-- Prune: deletes ended jobs whose time is over, with all that belongs to them. What moved since it was listed (a retried dead job) stays.
-- Parameters: job_ids uuid[]; now timestamptz or null. Rows: the ids that were deleted.
-- Locks: jobs (by id, skip locked, so that any number may prune at once) -> executions -> unique_holds (by key) -> dead_letter_queue.
with over as materialized (
    select j.id from tidemill.jobs j
    where j.id = any(%(job_ids)s::uuid[])
      and ((j.finalized_at is not null and j.retention_until <= coalesce(%(now)s::timestamptz, statement_timestamp()))
           or (j.phase = 'moving'
               and exists (select 1 from tidemill.job_executions x where x.job_id = j.id and x.status = 'completed')))
    order by j.id
    for update skip locked
), jobs as (
    delete from tidemill.jobs j using over o where j.id = o.id returning j.id
), executions as (
    delete from tidemill.job_executions x using jobs j where x.job_id = j.id
), logs as (
    delete from tidemill.job_logs g using jobs j where g.job_id = j.id
), holds as (
    delete from tidemill.unique_holds h
    where (h.project_id, h.kind, h.key) in (
        select u.project_id, u.kind, u.key from jobs j join tidemill.unique_holds u on u.job_id = j.id
        order by u.kind, u.key for update of u)
), dead as (
    delete from tidemill.dead_letter_queue d using jobs j where d.job_id = j.id
), edges as (
    delete from tidemill.job_dependencies d using jobs j where d.job_id = j.id
)
select j.id::text from jobs j
