-- Which jobs belong to another project, however good the token that came with them. Parameters: project_id uuid; job_ids text[].
-- Rows: the ids as they were given. Locks: none.
select g.id
from unnest(%(job_ids)s::text[]) as g (id)
cross join lateral (select t.project_id from tidemill.jobs t where t.id = g.id::uuid limit 1) j
where j.project_id <> %(project_id)s::uuid
