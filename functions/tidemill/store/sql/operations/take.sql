-- The operation whose turn it is, of those that are being applied or undone: the one that has waited longest of the first 20 that no other scheduler holds.
-- From here to the end of the transaction no lock is waited for longer than lock_ms: this statement itself waits for none.
-- Parameters: skip uuid[] (those had their turn in this pass); lock_ms text. Rows: one, or none. Locks: operation (skip locked), so that its batches follow one another.
with patience as materialized (
    select set_config('lock_timeout', %(lock_ms)s::text, true)
), waiting as materialized (
    (select a.id, a.updated_at from tidemill.operations a
     where a.status = 'applying' and not (a.id = any(%(skip)s::uuid[])) order by a.updated_at limit 20)
    union
    (select u.id, u.updated_at from tidemill.operations u
     where u.undo_at is not null and u.undone_at is null and not (u.id = any(%(skip)s::uuid[])) order by u.updated_at limit 20)
)
select o.id::text, o.project_id::text, o.action, o.status::text, o.filter, o.states, o.estimate, o.is_approximate, o.counts, o.sample,
       encode(o.filter_hash, 'hex') as hash, o.allow_drift, o.total, o.affected, o.skips, o.position::text, o.is_walked, o.again::text[], o.error,
       o.queue_id::text, o.created_by::text, o.actor_kind, o.created_at, o.applied_by::text, o.applied_at, o.updated_at, o.finished_at,
       o.undo_by::text, o.undo_at, o.undone, o.undo_skips, o.undo_position::text, o.undone_at, o.snapshot_at
from tidemill.operations o
where (select p.set_config from patience p) is not null and o.id = any(array(select w.id from waiting w)) and (o.status = 'applying' or (o.undo_at is not null and o.undone_at is null))
order by o.updated_at
limit 1
for update of o skip locked
