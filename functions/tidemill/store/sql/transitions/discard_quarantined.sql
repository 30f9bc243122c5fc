-- Discard: of the next %(limit)s jobs that bear a fingerprint, those set aside are cancelled (discarded). Parameters: project_id uuid; fingerprint text (hex);
--   after uuid or null (exclusive); limit integer; now timestamptz or null.
-- Rows: job_id, traits, true, null of each that was cancelled; then one with job_id null: how many were looked at (in traits' place), and the last.
-- Locks: quarantine (the caller holds it) -> jobs (skip locked); the keys are free since they were set aside.
with walked as materialized (
    select j.id, j.phase from tidemill.jobs j
    where j.project_id = %(project_id)s::uuid and j.fingerprint = decode(%(fingerprint)s::text, 'hex')
      and j.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
    order by j.id limit %(limit)s::integer
), picked as materialized (
    select j.id from tidemill.jobs j
    where j.id = any(array(select w.id from walked w where w.phase = 'quarantined')) and j.phase = 'quarantined'
    order by j.id for update skip locked
), moved as (
    update tidemill.jobs j
    set phase = 'cancelled', is_held = false, pending_parents = 0, final_reason = 'discarded',
        finalized_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
        retention_until = greatest(coalesce(%(now)s::timestamptz, statement_timestamp())
            + make_interval(secs => coalesce(j.retention_ms, q.retention_cancelled_ms) / 1000.0), j.unique_until),
        updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    from picked p, tidemill.queues q
    where j.id = p.id and j.id = any(array(select a.id from picked a)) and q.id = j.queue_id
    returning j.id, tidemill.job_traits(j) as traits
)
select m.id::text, m.traits::integer, true, null from moved m
union all
select null, (select count(*) from walked)::integer, false, (select w.id::text from walked w order by w.id desc limit 1)
