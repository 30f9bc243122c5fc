-- Ask leased jobs to stop, as request_cancel.sql asks one, for an operation that remembers whom it asked.
-- Parameters: project_id, operation_id uuid; job_ids uuid[] (sorted); since timestamptz; wide boolean (see cancel_entries_many.sql); begun_since boolean (one that
--   began after `since` is no member); now timestamptz or null. Rows: job_id, outcome (moved | later | already_asked), 0 of each lease that nobody else held.
-- Locks: leases (by job, skip locked).
with found as materialized (
    select l.job_id, l.cancel_requested_at is not null as is_asked, l.started_at is not null as is_running,
           case when %(wide)s::boolean
                then j.updated_at > %(since)s::timestamptz and l.fence > 0 and exists (
                    select 1 from tidemill.dead_letter_queue d
                    where d.job_id = j.id and d.resolution_action = 'retry' and d.resolved_at > %(since)s::timestamptz)
                else l.claimed_at > %(since)s::timestamptz or (%(begun_since)s::boolean and l.started_at > %(since)s::timestamptz) end as is_later
    from tidemill.job_leases l join tidemill.jobs j on j.id = l.job_id
    where l.job_id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid
    order by l.job_id for update of l skip locked
), asked as (
    update tidemill.job_leases l
    set cancel_requested_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    from found f
    where l.job_id = f.job_id and not f.is_later and not f.is_asked
    returning l.job_id, l.cancel_requested_at, f.is_running
), noted as (
    insert into tidemill.operation_jobs (operation_id, job_id, was, at)
    select %(operation_id)s::uuid, a.job_id, case when a.is_running then 'running' else 'claimed' end::tidemill.job_status, a.cancel_requested_at
    from asked a
    on conflict do nothing
)
select f.job_id::text, case when f.is_later then 'later' when f.is_asked then 'already_asked' else 'moved' end as outcome, 0::smallint as traits
from found f
