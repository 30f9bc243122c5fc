-- A job's log lines in the order they came. Parameters: job_id uuid; after bigint (exclusive); levels text[]; limit integer. Rows: at most limit. Locks: none.
select g.id, g.execution_id::text, g.ts, g.level, g.message
from tidemill.job_logs g
where g.job_id = %(job_id)s::uuid and g.id > %(after)s::bigint and g.level = any(%(levels)s::text[])
order by g.id
limit %(limit)s::integer
