-- What has happened in each queue of a project since the beginning. Parameters: project_id uuid; limit integer. Rows: name, arrived, completed, failed, dead. Locks: none.
select q.name::text as name, coalesce(t.arrived, 0) as arrived, coalesce(t.completed, 0) as completed, coalesce(t.failed, 0) as failed,
       coalesce(t.dead, 0) as dead
from tidemill.queues q
left join tidemill.queue_totals t on t.queue_id = q.id
where q.project_id = %(project_id)s::uuid
order by q.name limit %(limit)s::integer
