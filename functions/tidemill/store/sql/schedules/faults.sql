-- What is wrong with jobs' shapes, in words. Parameters: jobs text (JSON array). Rows: position, field, message, in that order; none of those that are right.
select f.pos, f.field, f.message from tidemill.job_faults(%(jobs)s::jsonb) as f order by f.pos, f.field limit 1000
