-- The end of an operation. Parameters: id uuid; status text (completed | failed | aborted); error text or null; now timestamptz or null.
-- Members that were counted and are not in the filter any more count as skipped: affected + skipped = total from then on.
-- What the scheduler ends is noted in the audit log. Rows: one if it was planned or applying. Locks: operation.
with ended as (
update tidemill.operations o
set status = %(status)s::tidemill.operation_status, error = %(error)s::text, again = '{}', finished_at = coalesce(%(now)s::timestamptz, statement_timestamp()), updated_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    skips = case when r.gone > 0 then o.skips || jsonb_build_object('changed', coalesce((o.skips ->> 'changed')::bigint, 0) + r.gone) else o.skips end,
    total = case when %(status)s::text = 'completed' then greatest(o.total, r.done) else o.total end,
    skipped = r.skipped + greatest(r.gone, 0)
from tidemill.operations p
cross join lateral (
    select coalesce((select sum(s.n::bigint) from jsonb_each_text(p.skips) as s (reason, n)), 0) as skipped) k
cross join lateral (
    select k.skipped, p.affected + k.skipped as done,
           case when %(status)s::text = 'completed' and p.total is not null then p.total - p.affected - k.skipped else 0 end as gone) r
where o.id = %(id)s::uuid and p.id = o.id and o.status in ('planned', 'applying')
returning o.id, o.project_id, o.status, o.total, o.affected, o.skips
), noted as (
    -- an abort is somebody's, and noted as theirs
    insert into tidemill.audit_log (project_id, actor_kind, action, target_kind, target_id, before, after)
    select e.project_id, 'system', 'operations.' || e.status, 'operation', e.id::text, jsonb_build_object('status', 'applying'),
           jsonb_build_object('status', e.status, 'total', e.total, 'affected', e.affected, 'skips', e.skips)
    from ended e where e.status <> 'aborted'
)
select e.id::text from ended e
