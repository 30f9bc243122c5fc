-- Undo an operation from now on. Parameters: id uuid; by uuid or null; now timestamptz or null. Rows: one if it was not asked yet. Locks: operation.
update tidemill.operations o
set undo_by = %(by)s::uuid, undo_at = coalesce(%(now)s::timestamptz, statement_timestamp()), updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
where o.id = %(id)s::uuid and o.undo_at is null and o.status in ('completed', 'aborted', 'failed')
returning o.id::text
