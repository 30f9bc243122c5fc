-- Apply a plan. Parameters: id uuid; allow_drift boolean; total bigint or null; by uuid or null; closed_xid boolean (note this transaction as the one
--   that closes the queue); now timestamptz or null. Rows: one if it was still planned. Locks: operation.
update tidemill.operations o
set status = 'applying', allow_drift = %(allow_drift)s::boolean, total = %(total)s::bigint, applied_by = %(by)s::uuid,
    closed_xid = case when %(closes)s::boolean then pg_current_xact_id() end,
    applied_at = coalesce(%(now)s::timestamptz, statement_timestamp()), updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
where o.id = %(id)s::uuid and o.status = 'planned'
returning o.id::text
