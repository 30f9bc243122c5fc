-- What a schedule's jobs need, by name. Parameters: project_id uuid; queue text; retry_policy text or null.
-- Rows: one: queue id (null: no such queue), whether it is closed, policy id (null: none asked for, or no such policy).
select (select q.id::text from tidemill.queues q where q.project_id = %(project_id)s::uuid and q.name = %(queue)s::text) as queue_id,
       coalesce((select q.is_closed from tidemill.queues q where q.project_id = %(project_id)s::uuid and q.name = %(queue)s::text), false) as is_closed,
       (select p.id::text from tidemill.retry_policies p where p.project_id = %(project_id)s::uuid and p.name = %(retry_policy)s::text) as policy_id
