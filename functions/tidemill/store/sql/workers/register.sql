-- A new worker row, unless one of its queues does not exist; the same name may register any number of times. Parameters: worker_id uuid; project_id uuid; name, hostname, version text; pid bigint;
--   queues text[]; job_types text[] or null; max_concurrency integer; lease_ms bigint; now timestamptz or null.
-- Rows: the names of its queues that exist.
with queues as (
    select q.id, q.name from tidemill.queues q where q.project_id = %(project_id)s::uuid and q.name = any(%(queues)s::text[]) limit 100
), made as (
    insert into tidemill.workers (id, project_id, name, hostname, pid, version, subscribed_queues, job_types, max_concurrency, lease_ms, started_at, last_seen_at)
    select %(worker_id)s::uuid, %(project_id)s::uuid, %(name)s, %(hostname)s, %(pid)s::bigint, %(version)s, array(select q.id from queues q),
           %(job_types)s::text[], %(max_concurrency)s::integer, %(lease_ms)s::bigint,
           coalesce(%(now)s::timestamptz, statement_timestamp()), coalesce(%(now)s::timestamptz, statement_timestamp())
    where (select count(*) from queues) = (select count(distinct n) from unnest(%(queues)s::text[]) as n)
)
select q.name::text from queues q
