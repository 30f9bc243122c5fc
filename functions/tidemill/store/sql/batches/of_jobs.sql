-- Which batch each job belongs to. Parameters: job_ids uuid[]. Rows: job_id, batch_id.
select j.id::text, j.batch_id::text from tidemill.jobs j where j.id = any(%(job_ids)s::uuid[]) and j.batch_id is not null
