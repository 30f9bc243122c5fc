-- Open edges whose parent has ended, for the sweep. Walks at most %(limit)s open edges from %(after)s on (a random place, so that passes cover all).
-- Parameters: after uuid; limit integer. Rows: parent, failed.
select distinct w.depends_on_job_id::text, s.status is distinct from 'completed' as failed
from (select d.depends_on_job_id from tidemill.job_dependencies d
      where d.settled_at is null and d.depends_on_job_id > %(after)s::uuid
      order by d.depends_on_job_id limit %(limit)s::integer) w
left join tidemill.job_states s on s.id = w.depends_on_job_id
where s.id is null or s.status in ('completed', 'cancelled', 'dead_letter', 'quarantined')
