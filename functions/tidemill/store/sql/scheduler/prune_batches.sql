-- Prune: batches that ended longer than %(kept_ms)s ago and have no job left. Looks at the oldest and, since those may keep a job for long,
-- at some from a moment drawn by chance on: bounded whatever is kept. Parameters: kept_ms bigint; limit integer; now timestamptz or null.
-- Rows: one: count. Locks: batches (skips what somebody counts in).
with edge as materialized (
    select coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(kept_ms)s::bigint / 1000.0) as at
), drawn as materialized (
    select e.at - (e.at - (select min(b.finalized_at) from tidemill.job_batches b)) * random() as at from edge e
), candidates as (
    (select b.id from tidemill.job_batches b where b.finalized_at <= (select e.at from edge e) order by b.finalized_at limit %(limit)s::integer)
    union
    (select b.id from tidemill.job_batches b where b.finalized_at >= (select d.at from drawn d) and b.finalized_at <= (select e.at from edge e)
     order by b.finalized_at limit %(limit)s::integer)
), gone as (
    delete from tidemill.job_batches b where b.id in (
        select v.id from tidemill.job_batches v
        where v.id = any(array(select c.id from candidates c)) and v.finalized_at is not null
          and not exists (select from tidemill.jobs j where j.batch_id = v.id)
        order by v.id limit %(limit)s::integer for update skip locked)
    returning 1
)
select count(*) from gone
