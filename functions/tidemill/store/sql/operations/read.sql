-- One operation. Parameters: project_id, id uuid; lock boolean (nobody else moves it until the transaction ends). Rows: one if the project has it.
-- Locks: operation, if asked for.
with locked as materialized (
    select l.id from tidemill.operations l
    where %(lock)s::boolean and l.id = %(id)s::uuid and l.project_id = %(project_id)s::uuid
    for update
)
select o.id::text, o.project_id::text, o.action, o.status::text, o.filter, o.states, o.estimate, o.is_approximate, o.counts, o.sample,
       encode(o.filter_hash, 'hex') as hash, o.allow_drift, o.total, o.affected, o.skips, o.position::text, o.is_walked, o.again::text[], o.error,
       o.queue_id::text, o.created_by::text, o.actor_kind, o.created_at, o.applied_by::text, o.applied_at, o.updated_at, o.finished_at,
       o.undo_by::text, o.undo_at, o.undone, o.undo_skips, o.undo_position::text, o.undone_at, o.snapshot_at
from tidemill.operations o
where o.id = %(id)s::uuid and o.project_id = %(project_id)s::uuid and (select count(*) from locked) >= 0
