-- What a leased job's parents returned, in id order. Parameters: job_id uuid; lease_token uuid; after uuid (the nil UUID to begin);
--   limit integer; bytes bigint. Stops early rather than exceed %(bytes)s of results, but always gives one.
-- Rows: parent id, status (null once it is gone), result (JSON text or null); a single row of nulls if there is none (left); none if the lease is lost.
with parents as materialized (
    select d.depends_on_job_id as id, s.status, x.result::text as result
    from tidemill.job_dependencies d
    left join tidemill.job_states s on s.id = d.depends_on_job_id
    left join tidemill.job_executions x on x.job_id = d.depends_on_job_id and x.status = 'completed'
    where d.job_id = %(job_id)s::uuid and d.depends_on_job_id > %(after)s::uuid
    order by d.depends_on_job_id
    limit %(limit)s::integer
), fitting as (
    select p.id, p.status, p.result, row_number() over w as place, sum(octet_length(p.result)) over w as size
    from parents p window w as (order by p.id)
)
select f.id::text, f.status::text, f.result
from tidemill.job_leases l
left join fitting f on f.place = 1 or coalesce(f.size, 0) <= %(bytes)s::bigint
where l.job_id = %(job_id)s::uuid and l.lease_token = %(lease_token)s::uuid
order by f.id
