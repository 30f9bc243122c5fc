-- How far a batch has brought an undo. Parameters: id uuid; position uuid or null; undone bigint (more); skips text (JSON, all of them); over boolean;
--   now timestamptz or null. Rows: none. Locks: operation (held already).
update tidemill.operations o
set undo_position = coalesce(%(position)s::uuid, o.undo_position), undone = o.undone + %(undone)s::bigint, undo_skips = %(skips)s::jsonb,
    undone_at = case when %(over)s::boolean then coalesce(%(now)s::timestamptz, statement_timestamp()) end, updated_at = clock_timestamp()
where o.id = %(id)s::uuid
