-- Prune: operations that ended longer than %(kept_ms)s ago, at most 10, each once its record of jobs is gone; of that at most %(limit)s rows a time.
-- Parameters: kept_ms bigint; limit integer; now timestamptz or null. Rows: one: operations, rows removed. Locks: operations (skip locked).
with old as materialized (
    select o.id from tidemill.operations o
    where o.status <> 'applying' and (o.undo_at is null or o.undone_at is not null)
      and o.updated_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(kept_ms)s::bigint / 1000.0)
    order by o.updated_at limit 10 for update skip locked
), record as materialized (
    select r.operation_id, r.job_id
    from old o cross join lateral (
        select a.operation_id, a.job_id from tidemill.operation_jobs a where a.operation_id = o.id limit %(limit)s::integer) r
    limit %(limit)s::integer
), rows as (
    delete from tidemill.operation_jobs a using record r where a.operation_id = r.operation_id and a.job_id = r.job_id returning 1
), gone as (
    delete from tidemill.operations p
    where p.id = any(array(select o.id from old o where not exists (select 1 from tidemill.operation_jobs a where a.operation_id = o.id)))
    returning 1
)
select (select count(*) from gone) as operations, (select count(*) from rows) as jobs
