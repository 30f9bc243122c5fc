-- Ask what runs of a queue to stop. Parameters: queue_id uuid; limit integer; now timestamptz or null. Rows: one: leases, how many there are, asked or not (at most limit);
-- asked: how many were now. Leases are few, so that all are looked through. Locks: leases (skip locked).
with found as materialized (
    select l.job_id, l.cancel_requested_at is null as is_new from tidemill.job_leases l
    where l.queue_id = %(queue_id)s::uuid order by l.job_id limit %(limit)s::integer for update skip locked
), asked as (
    update tidemill.job_leases l set cancel_requested_at = coalesce(%(now)s::timestamptz, statement_timestamp()) from found f where f.is_new and l.job_id = f.job_id returning 1
)
select (select count(*) from (select 1 from tidemill.job_leases l where l.queue_id = %(queue_id)s::uuid limit %(limit)s::integer) h) as leases,
       (select count(*) from asked) as asked
