-- The job types that a project has used, by name. Parameters: project_id uuid; after text or null (exclusive); limit integer. Rows: at most limit. Locks: none.
select t.name, t.first_seen_at, t.last_seen_at
from tidemill.job_types t
where t.project_id = %(project_id)s::uuid and t.name > coalesce(%(after)s::text, '')
order by t.name
limit %(limit)s::integer
