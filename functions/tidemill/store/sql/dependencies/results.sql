-- What a leased job's parents returned. Parameters: job_id uuid; lease_token uuid; limit integer. Rows: parent id, status, result (JSON text or null); none if the lease is lost.
select d.depends_on_job_id::text, s.status::text, x.result::text
from tidemill.job_leases l
join tidemill.job_dependencies d on d.job_id = l.job_id
left join tidemill.job_states s on s.id = d.depends_on_job_id
left join tidemill.job_executions x on x.job_id = d.depends_on_job_id and x.status = 'completed'
where l.job_id = %(job_id)s::uuid and l.lease_token = %(lease_token)s::uuid
order by d.depends_on_job_id
limit %(limit)s::integer
