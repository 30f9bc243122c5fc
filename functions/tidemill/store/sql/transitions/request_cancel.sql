-- Ask a leased job to stop: its worker is told on its channel, where it listens, and else learns it from the next heartbeat. The first request's time stays.
-- Parameters: project_id uuid; job_id uuid; now timestamptz or null. Rows: one if the job is leased. Locks: lease.
with asked as (
    update tidemill.job_leases l
    set cancel_requested_at = coalesce(l.cancel_requested_at, %(now)s::timestamptz, statement_timestamp())
    from tidemill.jobs j
    where l.job_id = %(job_id)s::uuid and j.id = l.job_id and j.project_id = %(project_id)s::uuid
    returning l.job_id, l.lease_token, l.worker_id
)
select a.job_id::text, a.lease_token::text,
       case when a.worker_id is not null then pg_notify('tidemill_word_' || replace(a.worker_id::text, '-', ''), '')::text end as told
from asked a
