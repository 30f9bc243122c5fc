-- Has a project any job, in whatever state? Parameters: id uuid. Rows: one if it has. Locks: none.
select true from tidemill.jobs j where j.project_id = %(id)s::uuid limit 1
