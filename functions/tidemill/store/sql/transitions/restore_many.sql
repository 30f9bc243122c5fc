-- Undo the cancel of an operation: its jobs go back to where they were. What was scheduled or queued is due as before; the attempt of one that was asked to stop is
-- given back; a pending one waits for those of its parents that have not ended (parents come first), and goes on if none is left. docs/adr/0012.
-- Parameters: project_id, operation_id uuid; job_ids uuid[] (sorted); now timestamptz or null.
-- Rows: job_id, outcome (moved | unique_conflict | queue_closed | occurrence_taken | parent_failed), traits of each that is still cancelled.
-- Locks: jobs (by id) -> unique_holds (by key) -> dependencies -> entries (insert).
with gone as materialized (
    select j.id, a.was, a.was_held, j.unique_key, coalesce(j.on_parent_failure, 'cancel') as rule,
           coalesce((j.unique_window = 'running' and a.was <> 'quarantined')
               or (j.unique_window = 'pending' and j.attempt_count = 0 and a.was in ('pending', 'scheduled', 'queued')), false) as is_keyed,
           case when q.is_closed then 'queue_closed'
                when j.scheduled_for is not null and exists (
                    select 1 from tidemill.jobs o
                    where o.scheduled_job_id = j.scheduled_job_id and o.scheduled_for = j.scheduled_for and o.phase <> 'cancelled') then 'occurrence_taken' end as bar
    from tidemill.jobs j
    cross join lateral (select * from tidemill.operation_jobs r where r.operation_id = %(operation_id)s::uuid and r.job_id = j.id limit 1) a
    join tidemill.queues q on q.id = j.queue_id
    where j.id = any(%(job_ids)s::uuid[]) and a.was <> 'dead_letter'
      and j.project_id = %(project_id)s::uuid and j.phase = 'cancelled'
    order by j.id for update of j
), taken as (
    insert into tidemill.unique_holds as h (project_id, kind, key, job_id)
    select %(project_id)s::uuid, 'unique', k.unique_key, k.id
    from (select distinct on (g.unique_key) g.unique_key, g.id from gone g where g.is_keyed and g.bar is null order by g.unique_key, g.id) k
    order by k.unique_key
    on conflict (project_id, kind, key) do update
    set job_id = case when h.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) then excluded.job_id else h.job_id end,
        expires_at = case when h.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) then null else h.expires_at end
    returning h.key, h.job_id
), lists as materialized (
    -- Looked up by key, not joined: of two lists that the planner takes for one row it would compare every pair.
    select coalesce((select jsonb_object_agg(g.id::text, true) from gone g where g.bar is null and g.was <> 'quarantined'), '{}') as back,
           coalesce((select jsonb_object_agg(encode(t.key, 'hex'), t.job_id) from taken t), '{}') as holders
), edges as materialized (
    -- a parent that is put back in this very statement is live again
    select d.job_id, d.depends_on_job_id,
           b.is_back or p.status in ('pending', 'scheduled', 'queued', 'claimed', 'running') as is_live,
           not b.is_back and (p.status is null or p.status in ('cancelled', 'dead_letter', 'quarantined')) as has_failed
    from gone g
    join tidemill.job_dependencies d on d.job_id = g.id
    left join tidemill.job_states p on p.id = d.depends_on_job_id
    cross join lists l
    cross join lateral (select l.back ? d.depends_on_job_id::text as is_back) b
    where g.was = 'pending'
), families as materialized (
    select coalesce(jsonb_object_agg(e.job_id::text, jsonb_build_object('live', e.live, 'has_failed', e.has_failed)), '{}') as of
    from (select e.job_id, count(*) filter (where e.is_live) as live, bool_or(e.has_failed) as has_failed from edges e group by e.job_id) e
), judged as materialized (
    select g.id, g.was, g.was_held, g.rule, f.live, f.has_failed,
           coalesce(g.bar, case when g.is_keyed and l.holders ->> encode(g.unique_key, 'hex') is distinct from g.id::text then 'unique_conflict'
                                when g.was = 'pending' and f.has_failed and g.rule = 'cancel' then 'parent_failed' else 'moved' end) as outcome
    from gone g
    cross join lists l
    cross join families a
    cross join lateral (
        select coalesce((a.of -> g.id::text ->> 'live')::integer, 0) as live,
               coalesce((a.of -> g.id::text ->> 'has_failed')::boolean, false) as has_failed) f
), reopened as (
    update tidemill.job_dependencies d set settled_at = null
    from edges e join judged v on v.id = e.job_id
    where v.outcome = 'moved' and e.is_live and d.job_id = e.job_id and d.depends_on_job_id = e.depends_on_job_id
), moved as (
    update tidemill.jobs j
    set phase = case when v.was = 'quarantined' then 'quarantined'
                     when v.was = 'pending' and (v.live > 0 or v.was_held or (v.has_failed and v.rule = 'hold')) then 'waiting'
                     else 'moving' end::tidemill.job_phase,
        is_held = v.was = 'pending' and (v.was_held or (v.has_failed and v.rule = 'hold')),
        pending_parents = case when v.was = 'pending' then v.live else 0 end,
        attempt_count = case when v.was in ('claimed', 'running') then greatest(0, j.attempt_count - 1) else j.attempt_count end,
        run_at = case when v.was in ('claimed', 'running') or (v.was = 'pending' and v.live = 0 and not v.was_held and not (v.has_failed and v.rule = 'hold')) then greatest(j.run_at, coalesce(%(now)s::timestamptz, statement_timestamp())) else j.run_at end,
        final_reason = null, finalized_at = null, retention_until = null, updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    from judged v
    where v.outcome = 'moved' and j.id = v.id and j.phase = 'cancelled'
    returning j.*, tidemill.job_traits(j) as traits
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at)
    select distinct on (m.queue_id, m.lane, m.priority) m.queue_id, m.id, m.run_at from moved m where m.lane <> 0 and m.phase = 'moving'
    order by m.queue_id, m.lane, m.priority, m.run_at
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select m.queue_id, m.priority, m.run_at, m.id, m.attempt_count, m.fence, m.traits, nullif(m.weight, 1), m.lane
    from moved m where m.phase = 'moving'
), levels as (
    insert into tidemill.queue_levels (queue_id, priority)
    select distinct m.queue_id, m.priority from moved m
    where m.phase = 'moving' and not exists (select 1 from tidemill.queue_levels l where l.queue_id = m.queue_id and l.priority = m.priority)
)
select v.id::text, v.outcome, 0::smallint as traits from judged v where v.outcome <> 'moved'
union all
select m.id::text, 'moved', m.traits from moved m
