-- Discard dead letters: the jobs stay dead and their open dead-letter rows are resolved, for an operation that remembers which. Parameters: project_id,
--   operation_id uuid; job_ids uuid[] (sorted); since timestamptz (one that died after it is no member); by uuid or null; now timestamptz or null.
-- Rows: job_id, outcome (later | already_resolved), 0 of each that was dead and that nobody else held; then (job_id, moved, 0) of those that were resolved now, which counts. Locks: jobs (by id, share, skip locked) -> dead_letter_queue.
with found as materialized (
    select j.id, j.finalized_at > %(since)s::timestamptz as is_later
    from tidemill.jobs j
    where j.id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid and j.phase = 'dead_letter'
    order by j.id for share of j skip locked
), resolved as (
    update tidemill.dead_letter_queue d
    set resolved = true, resolved_at = coalesce(%(now)s::timestamptz, statement_timestamp()), resolved_by = %(by)s::uuid, resolution_action = 'discard'
    where d.job_id = any(array(select f.id from found f where not f.is_later)) and not d.resolved
    returning d.job_id
), noted as (
    insert into tidemill.operation_jobs (operation_id, job_id, was, at)
    select distinct %(operation_id)s::uuid, r.job_id, 'dead_letter'::tidemill.job_status, coalesce(%(now)s::timestamptz, statement_timestamp()) from resolved r
    on conflict do nothing
)
select f.id::text, case when f.is_later then 'later' else 'already_resolved' end as outcome, 0::smallint as traits from found f
union all
select distinct r.job_id::text, 'moved', 0::smallint from resolved r
