-- What a leased job's parents returned, in id order; to a batch's callback its members are its parents. Parameters: job_id uuid;
--   lease_token uuid; after uuid (the nil UUID to begin); limit integer; bytes bigint.
-- Stops early rather than exceed %(bytes)s of results, but always gives one.
-- Rows: parent id, status (null once it is gone), result (JSON text or null); a single row of nulls if there is none (left); none if the lease is lost.
with lease as materialized (
    select l.job_id, j.project_id,
           case when j.headers ->> 'tidemill-batch-id' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
                     and j.headers ? 'tidemill-batch-callback'
                then (j.headers ->> 'tidemill-batch-id')::uuid end as batch_id
    from tidemill.job_leases l join tidemill.jobs j on j.id = l.job_id
    where l.job_id = %(job_id)s::uuid and l.lease_token = %(lease_token)s::uuid
), near as (
    (select d.depends_on_job_id as id
     from lease l join tidemill.job_dependencies d on d.job_id = l.job_id
     where d.depends_on_job_id > %(after)s::uuid
     order by d.depends_on_job_id limit %(limit)s::integer)
    union
    (select m.id
     from lease l
     join tidemill.job_batches b on b.id = l.batch_id and b.project_id = l.project_id
     join tidemill.jobs m on m.batch_id = b.id
     where m.id > %(after)s::uuid
     order by m.id limit %(limit)s::integer)
), parents as materialized (
    select n.id, s.status, x.result::text as result
    from near n
    left join tidemill.job_states s on s.id = n.id
    left join tidemill.job_executions x on x.job_id = n.id and x.status = 'completed'
    order by n.id
    limit %(limit)s::integer
), fitting as (
    select p.id, p.status, p.result, row_number() over w as place, sum(octet_length(p.result)) over w as size
    from parents p window w as (order by p.id)
)
select f.id::text, f.status::text, f.result
from lease l
left join fitting f on f.place = 1 or coalesce(f.size, 0) <= %(bytes)s::bigint
order by f.id
