-- A worker says that it sleeps on its queues, so that an enqueue rings it. Parameters: worker_id, project_id uuid; queues text[].
-- Rows: one per queue that was not said before. Locks: sleepers (insert).
insert into tidemill.queue_sleepers (queue_id, worker_id)
select q.id, %(worker_id)s::uuid from tidemill.queues q
where q.project_id = %(project_id)s::uuid and q.name = any(%(queues)s::text[])
limit 100
on conflict do nothing
returning queue_id::text
