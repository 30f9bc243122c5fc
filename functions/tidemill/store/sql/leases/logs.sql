-- Log lines of a leased job, at most %(keep)s kept per job. Parameters: job_id uuid; lease_token uuid; at timestamptz[], levels text[], messages text[]
--   of one length; keep integer. Rows: one if the lease is ours: how many lines were stored. Locks: lease (key share).
with lease as (
    select l.job_id, l.lease_token from tidemill.job_leases l
    where l.job_id = %(job_id)s::uuid and l.lease_token = %(lease_token)s::uuid for key share
), room as (
    select %(keep)s::integer - (select count(*) from (select 1 from tidemill.job_logs g where g.job_id = %(job_id)s::uuid limit %(keep)s::integer) t) as lines
), stored as (
    insert into tidemill.job_logs (execution_id, job_id, ts, level, message)
    select l.lease_token, l.job_id, n.ts, n.level, n.message
    from lease l
    cross join unnest(%(at)s::timestamptz[], %(levels)s::text[], %(messages)s::text[]) with ordinality as n (ts, level, message, ord)
    cross join room r
    where n.ord <= r.lines
    order by n.ord
    returning 1
)
select (select count(*) from stored) as stored from lease
