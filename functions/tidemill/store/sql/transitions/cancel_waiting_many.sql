-- Cancel pending or quarantined jobs, as cancel_waiting.sql does one, for an operation that remembers where each was.
-- Parameters: project_id, operation_id uuid; job_ids uuid[] (sorted); phases text[] (waiting, quarantined); since timestamptz (one quarantined after it is no
--   member, unless wide); wide boolean; reason text; now timestamptz or null.
-- Rows: job_id, outcome (moved | later), traits of each that was in one of the phases and that nobody else held. Locks: jobs (by id, skip locked) -> unique_holds (by key).
with found as materialized (
    select j.id, j.phase, j.is_held, not %(wide)s::boolean and j.phase = 'quarantined' and j.updated_at > %(since)s::timestamptz as is_later
    from tidemill.jobs j
    where j.id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid and j.phase = any(%(phases)s::tidemill.job_phase[])
    order by j.id for update of j skip locked
), moved as (
    update tidemill.jobs j
    set phase = 'cancelled', is_held = false, pending_parents = 0, final_reason = %(reason)s::text, finalized_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
        retention_until = greatest(coalesce(%(now)s::timestamptz, statement_timestamp()) + make_interval(secs => coalesce(j.retention_ms, q.retention_cancelled_ms) / 1000.0), j.unique_until),
        updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    from found f, tidemill.queues q
    where not f.is_later and j.id = f.id and q.id = j.queue_id
    returning j.id, j.unique_window, tidemill.job_traits(j) as traits, j.updated_at, f.phase as was, f.is_held as was_held
), freed as (
    delete from tidemill.unique_holds h
    where h.kind = 'unique' and h.job_id = any(array(
        select u.job_id from tidemill.unique_holds u
        where u.kind = 'unique' and u.job_id = any(array(select m.id from moved m where m.unique_window in ('pending', 'running')))
        order by u.key for update))
), noted as (
    insert into tidemill.operation_jobs (operation_id, job_id, was, was_held, at)
    select %(operation_id)s::uuid, m.id, case m.was when 'waiting' then 'pending' else 'quarantined' end::tidemill.job_status, m.was_held, m.updated_at
    from moved m
    on conflict do nothing
)
select f.id::text, 'later' as outcome, 0::smallint as traits from found f where f.is_later
union all
select m.id::text, 'moved', m.traits from moved m
