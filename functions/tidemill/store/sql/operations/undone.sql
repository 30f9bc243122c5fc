-- How far a batch has brought an undo. Parameters: id uuid; position uuid or null; undone bigint (more); skips text (JSON, all of them); over boolean;
--   now timestamptz or null. The end is noted in the audit log. Rows: none. Locks: operation (held already).
with moved as (
update tidemill.operations o
set undo_position = coalesce(%(position)s::uuid, o.undo_position), undone = o.undone + %(undone)s::bigint, undo_skips = %(skips)s::jsonb,
    undone_at = case when %(over)s::boolean then coalesce(%(now)s::timestamptz, statement_timestamp()) end, updated_at = clock_timestamp()
where o.id = %(id)s::uuid
returning o.id, o.project_id, o.undone, o.undo_skips, o.undone_at
)
insert into tidemill.audit_log (project_id, actor_kind, action, target_kind, target_id, before, after)
select m.project_id, 'system', 'operations.undone', 'operation', m.id::text, jsonb_build_object('status', 'undoing'),
       jsonb_build_object('status', 'undone', 'restored', m.undone, 'skips', m.undo_skips)
from moved m where m.undone_at is not null
