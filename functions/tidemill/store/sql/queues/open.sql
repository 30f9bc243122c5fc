-- Open a queue again whose removal was given up. Parameters: queue_id uuid. Rows: its id. Locks: queue.
update tidemill.queues q set is_closed = false, updated_at = statement_timestamp() where q.id = %(queue_id)s::uuid returning q.id::text
