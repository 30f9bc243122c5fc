-- What became of a demo's jobs. Parameters: project_id uuid; job_type text; limit integer.
-- Rows: one per job: path, status, completions that an ack made, completions in all, failures, lost leases, result of the completion, error class,
--   seconds from due to start and the ends of the completing attempt (null without one).
select j.payload ->> 'path', s.status::text,
       count(*) filter (where x.status = 'completed' and x.ack_digest is not null),
       count(*) filter (where x.status = 'completed'),
       count(*) filter (where x.status = 'failed'),
       count(*) filter (where x.status = 'lease_expired'),
       (array_agg(x.result) filter (where x.status = 'completed'))[1],
       s.error_class,
       min(extract(epoch from x.started_at - x.queued_at)) filter (where x.status = 'completed')::double precision,
       min(x.started_at), max(x.finished_at)
from tidemill.jobs j
join tidemill.job_states s on s.id = j.id
left join tidemill.job_executions x on x.job_id = j.id
where j.project_id = %(project_id)s::uuid and j.job_type = %(job_type)s::text
group by j.id, s.status, s.error_class
order by j.id
limit %(limit)s::integer
