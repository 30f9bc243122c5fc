-- How far a batch has brought an operation, in the batch's transaction. Parameters: id uuid; position uuid or null (stays); is_walked boolean;
--   again uuid[]; affected bigint (more); skips text (JSON, all of them); now timestamptz or null. Rows: none. Locks: operation (held already).
update tidemill.operations o
set position = coalesce(%(position)s::uuid, o.position), is_walked = %(is_walked)s::boolean, again = %(again)s::uuid[],
    affected = o.affected + %(affected)s::bigint, skips = %(skips)s::jsonb,
    skipped = (select coalesce(sum(s.n::bigint), 0) from jsonb_each_text(%(skips)s::jsonb) as s (reason, n)), updated_at = clock_timestamp()
where o.id = %(id)s::uuid
