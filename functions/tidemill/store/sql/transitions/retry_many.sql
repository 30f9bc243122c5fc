-- Retry dead jobs, as retry.sql does one: those that died before a moment, whose unique key is free (or none), and whose queue takes jobs.
-- Parameters: project_id uuid; job_ids uuid[] (sorted); since timestamptz; by uuid or null; now timestamptz or null.
-- Rows: job_id, outcome (later: it died after that | unique_conflict | queue_closed), 0 of each that was dead and that nobody else held; then (job_id, moved, traits) of
-- those that moved, which is what counts for them. A union, no join: of two lists that the planner takes for one row it would compare every pair.
-- Arrays, no joins: one walk along an index instead of a descent for each job, whatever the statistics say.
-- Locks: jobs (by id, skip locked) -> unique_holds (by key) -> entries (insert) -> dead_letter_queue.
with dead as materialized (
    select j.id, j.unique_key, j.unique_window in ('pending', 'running') as is_keyed,
           case when j.finalized_at > %(since)s::timestamptz then 'later' when q.is_closed then 'queue_closed' end as bar
    from tidemill.jobs j join tidemill.queues q on q.id = j.queue_id
    where j.id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid and j.phase = 'dead_letter'
    order by j.id for update of j skip locked
), taken as (
    insert into tidemill.unique_holds as h (project_id, kind, key, job_id)
    select %(project_id)s::uuid, 'unique', k.unique_key, k.id
    from (select distinct on (d.unique_key) d.unique_key, d.id from dead d where d.is_keyed and d.bar is null order by d.unique_key, d.id) k
    order by k.unique_key
    on conflict (project_id, kind, key) do update
    set job_id = case when h.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) then excluded.job_id else h.job_id end,
        expires_at = case when h.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) then null else h.expires_at end
    returning h.key, h.job_id
), ready as materialized (
    select d.id from dead d where d.bar is null and d.is_keyed is not true
    union all
    select t.job_id from taken t where t.job_id = any(array(select d.id from dead d where d.is_keyed and d.bar is null))
), moved as (
    update tidemill.jobs j
    set phase = 'moving', attempt_count = 0, crash_count = 0, final_reason = null, finalized_at = null, retention_until = null,
        run_at = coalesce(%(now)s::timestamptz, statement_timestamp()), updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    where j.id = any(array(select r.id from ready r)) and j.phase = 'dead_letter'
    returning j.*, tidemill.job_traits(j) as traits
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at)
    select distinct on (m.queue_id, m.lane, m.priority) m.queue_id, m.id, m.run_at from moved m where m.lane <> 0
    order by m.queue_id, m.lane, m.priority, m.run_at
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select m.queue_id, m.priority, m.run_at, m.id, 0, m.fence, m.traits, nullif(m.weight, 1), m.lane
    from moved m
), levels as (
    insert into tidemill.queue_levels (queue_id, priority)
    select distinct m.queue_id, m.priority from moved m
    where not exists (select 1 from tidemill.queue_levels l where l.queue_id = m.queue_id and l.priority = m.priority)
), resolved as (
    update tidemill.dead_letter_queue d
    set resolved = true, resolved_at = coalesce(%(now)s::timestamptz, statement_timestamp()), resolved_by = %(by)s::uuid, resolution_action = 'retry'
    where d.job_id = any(array(select m.id from moved m)) and not d.resolved
)
select d.id::text, coalesce(d.bar, 'unique_conflict') as outcome, 0::smallint as traits from dead d
union all
select m.id::text, 'moved', m.traits from moved m
