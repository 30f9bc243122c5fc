-- Close a queue to enqueues, or open it again. Parameters: project_id uuid; name text; is_closed boolean. Rows: its id and this transaction's id, if the project has it.
-- Locks: queue.
update tidemill.queues q
set is_closed = %(is_closed)s::boolean, updated_at = statement_timestamp()
where q.project_id = %(project_id)s::uuid and q.name = %(name)s::text
returning q.id::text, pg_current_xact_id()::text
