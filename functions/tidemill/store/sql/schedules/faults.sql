-- What is wrong with a job's shape, in words. Parameters: jobs text (JSON array). Rows: field, message; none where the shape is right.
select f.field, f.message from tidemill.job_faults(%(jobs)s::jsonb) as f order by f.pos, f.field limit 1
