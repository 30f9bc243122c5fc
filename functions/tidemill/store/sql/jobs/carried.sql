-- What a job carries beside its payload, all JSON as text. Parameters: job_id uuid. Rows: one: result, checkpoint, its cursor, output. Locks: none.
select (select x.result::text from tidemill.job_executions x where x.job_id = j.id and x.status = 'completed' order by x.fence desc limit 1) as result,
       j.checkpoint::text, j.checkpoint_cursor, j.output::text
from tidemill.jobs j
where j.id = %(job_id)s::uuid
