-- A worker was told to come back later: the rate classes of these jobs are closed for that long, and refill from zero after it. Never shortens.
-- Parameters: job_ids uuid[], delays_ms bigint[] of one length; now timestamptz or null. Rows: one: how many classes. Locks: rate classes, by name,
--   after the leases of the jobs; claims skip a class that is locked, so that nobody who holds one waits for a lease.
with asked as materialized (
    select j.project_id, j.rate_class, max(d.delay_ms) as delay_ms
    from rows from (unnest(%(job_ids)s::uuid[]), unnest(%(delays_ms)s::bigint[])) as d (job_id, delay_ms)
    cross join lateral (select i.project_id, i.rate_class from tidemill.jobs i where i.id = d.job_id limit 1) j
    where j.rate_class is not null
    group by j.project_id, j.rate_class
), held as materialized (
    select r.project_id, r.name, coalesce(%(now)s::timestamptz, clock_timestamp()) + make_interval(secs => a.delay_ms / 1000.0) as until
    from asked a join tidemill.rate_classes r on r.project_id = a.project_id and r.name = a.rate_class
    order by r.project_id, r.name for no key update of r
), closed as (
    update tidemill.rate_classes r
    set closed_until = h.until, tokens = least(r.tokens, 0), refilled_at = greatest(r.refilled_at, h.until)
    from held h
    where r.project_id = h.project_id and r.name = h.name and h.until > coalesce(r.closed_until, '-infinity')
    returning 1
)
select count(*) from closed
