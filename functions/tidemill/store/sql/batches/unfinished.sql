-- Members of a batch that have not ended. Parameters: batch_id uuid; after uuid (the nil UUID to begin); limit integer. Rows: project_id, id; in id order.
select s.project_id::text, s.id::text
from (select j.id from tidemill.jobs j where j.batch_id = %(batch_id)s::uuid and j.id > %(after)s::uuid order by j.id limit 5000) w
join tidemill.job_states s on s.id = w.id
where s.status in ('pending', 'scheduled', 'queued', 'claimed', 'running', 'quarantined') and s.cancel_requested_at is null
order by s.id
limit %(limit)s::integer
