-- Release: of the next %(limit)s jobs that bear a fingerprint, those set aside go back to where they came from, at their first attempt: queued, scheduled where
--   run_at is ahead, pending where parents or a hold keep them. One whose unique key another job has taken meanwhile is cancelled (unique_conflict): that
--   one stands for it. Parameters: project_id uuid; fingerprint text (hex); after uuid or null (exclusive); limit integer; now timestamptz or null.
-- Rows: job_id, traits, cancelled, null of each that moved; then one with job_id null: how many were looked at (in traits' place), and the last.
-- Workers asleep on a queue that gets a due job are rung, at most four. Locks: quarantine (the caller holds it) -> jobs (skip locked) -> unique_holds (by key)
--   -> entries (insert) -> sleepers (skip locked).
with clock as materialized (
    select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), walked as materialized (
    select j.id, j.phase from tidemill.jobs j
    where j.project_id = %(project_id)s::uuid and j.fingerprint = decode(%(fingerprint)s::text, 'hex')
      and j.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
    order by j.id limit %(limit)s::integer
), picked as materialized (
    select j.id, j.unique_key, coalesce(j.unique_window in ('pending', 'running'), false) as is_keyed
    from tidemill.jobs j
    where j.id = any(array(select w.id from walked w where w.phase = 'quarantined')) and j.phase = 'quarantined'
    order by j.id for update skip locked
), held as (
    insert into tidemill.unique_holds as h (project_id, kind, key, job_id)
    select %(project_id)s::uuid, 'unique', f.unique_key, f.id
    from (select distinct on (p.unique_key) p.unique_key, p.id from picked p where p.is_keyed order by p.unique_key, p.id) f
    order by f.unique_key
    on conflict (project_id, kind, key) do update
    set job_id = case when h.expires_at <= (select c.now from clock c) then excluded.job_id else h.job_id end,
        expires_at = case when h.expires_at <= (select c.now from clock c) then null else h.expires_at end
    returning h.job_id
), fate as materialized (
    select p.id, p.is_keyed and not exists (select 1 from held h where h.job_id = p.id) as is_late from picked p
), moved as (
    update tidemill.jobs j
    set phase = case when f.is_late then 'cancelled' when j.pending_parents > 0 or j.is_held then 'waiting' else 'moving' end::tidemill.job_phase,
        pending_parents = case when f.is_late then 0 else j.pending_parents end,
        is_held = j.is_held and not f.is_late,
        run_at = greatest(j.run_at, c.now), attempt_count = 0, crash_count = 0, fingerprint = null,
        final_reason = case when f.is_late then 'unique_conflict' end,
        finalized_at = case when f.is_late then c.now end,
        retention_until = case when f.is_late
            then greatest(c.now + make_interval(secs => coalesce(j.retention_ms, q.retention_cancelled_ms) / 1000.0), j.unique_until) end,
        updated_at = c.now
    from fate f, clock c, tidemill.queues q
    where j.id = f.id and j.id = any(array(select a.id from fate a)) and q.id = j.queue_id
    returning j.*, tidemill.job_traits(j) as traits
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at) select m.queue_id, m.id, m.run_at from moved m where m.lane <> 0 and m.phase = 'moving'
), entered as (
    insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select m.queue_id, m.priority, m.run_at, m.id, 0, m.fence, m.traits, nullif(m.weight, 1), m.lane
    from moved m where m.phase = 'moving'
), levels as (
    insert into tidemill.queue_levels (queue_id, priority)
    select distinct m.queue_id, m.priority from moved m
    where m.phase = 'moving' and not exists (select 1 from tidemill.queue_levels l where l.queue_id = m.queue_id and l.priority = m.priority)
), rung as (
    delete from tidemill.queue_sleepers s
    where (s.queue_id, s.worker_id) in (
        select w.queue_id, w.worker_id from tidemill.queue_sleepers w
        where w.queue_id in (select m.queue_id from moved m where m.phase = 'moving' and m.run_at <= (select c.now from clock c))
        limit 4 for update skip locked)
    returning s.worker_id
)
select m.id::text, m.traits::integer, m.phase = 'cancelled', null from moved m
union all
select null, (select count(*) from walked)::integer, (select count(pg_notify('tidemill_' || replace(r.worker_id::text, '-', ''), '')) from rung r) > 0,
       (select w.id::text from walked w order by w.id desc limit 1)
