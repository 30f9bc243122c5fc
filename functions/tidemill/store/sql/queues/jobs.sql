-- Jobs of a queue that are not leased, wherever they are, for its removal. Parameters: queue_id uuid; limit integer. Rows: at most limit ids. Locks: none.
(select e.job_id::text as id from tidemill.job_queue_entries e where e.queue_id = %(queue_id)s::uuid limit %(limit)s::integer)
union
(select j.id::text from tidemill.jobs j where j.queue_id = %(queue_id)s::uuid and j.phase <> 'moving' limit %(limit)s::integer)
union
(select x.job_id::text from tidemill.job_executions x
 where x.queue_id = %(queue_id)s::uuid and x.status = 'completed' and x.retention_until is null
 order by x.finished_at limit %(limit)s::integer)
union
(select x.job_id::text from tidemill.job_executions x
 where x.queue_id = %(queue_id)s::uuid and x.status = 'completed' and x.retention_until is not null
 order by x.finished_at limit %(limit)s::integer)
limit %(limit)s::integer
