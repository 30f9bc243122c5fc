-- Prune: ids of cancelled and dead jobs whose time is over. Parameters: limit integer; now timestamptz or null. Rows: project_id, job_id.
select j.project_id::text, j.id::text
from tidemill.jobs j
where j.finalized_at is not null and j.retention_until <= coalesce(%(now)s::timestamptz, statement_timestamp())
order by j.retention_until
limit %(limit)s::integer
