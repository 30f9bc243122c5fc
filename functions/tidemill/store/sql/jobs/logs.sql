-- A job's log lines in the order they came. Parameters: job_id uuid; after bigint (exclusive); levels text[]; limit integer. Rows: at most limit; fence: the
--   attempt's, null if it is no longer kept. What tells the attempt in job_logs is its lease token, which no reader may have. Locks: none.
select g.id,
       coalesce((select l.fence from tidemill.job_leases l where l.job_id = g.job_id and l.lease_token = g.execution_id),
                (select x.fence from tidemill.job_executions x where x.job_id = g.job_id and x.id = g.execution_id)) as fence,
       g.ts, g.level, g.message
from tidemill.job_logs g
where g.job_id = %(job_id)s::uuid and g.id > %(after)s::bigint and g.level = any(%(levels)s::text[])
order by g.id
limit %(limit)s::integer
