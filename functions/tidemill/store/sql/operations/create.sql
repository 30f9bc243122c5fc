-- A new plan. Parameters: id, project_id uuid; action text; filter, counts, sample text (JSON); states text[]; hash text (hex); estimate bigint;
--   is_approximate boolean; queue_id uuid or null; by uuid or null; actor_kind text; now timestamptz or null. Rows: its id. Locks: none.
insert into tidemill.operations (
    id, project_id, action, filter, filter_hash, states, estimate, is_approximate, counts, sample, queue_id, created_by, actor_kind,
    snapshot_at, created_at, updated_at)
select %(id)s::uuid, %(project_id)s::uuid, %(action)s::text, %(filter)s::jsonb, decode(%(hash)s::text, 'hex'), %(states)s::text[],
       %(estimate)s::bigint, %(is_approximate)s::boolean, %(counts)s::jsonb, %(sample)s::jsonb, %(queue_id)s::uuid, %(by)s::uuid,
       %(actor_kind)s::text, n.now, n.now, n.now
from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) n
returning id::text
