-- A parent's end reaches its children: one round over at most %(limit)s edges. Parameters: parents uuid[], failed boolean[] of one length; limit integer;
--   now timestamptz or null. A child whose last parent settled goes on (queued, or scheduled where its run_at is ahead); with a failed parent it is
--   cancelled, held or runs, by its own rule; a quarantined one stays where it is
--   and is released into what this makes of it. Rows: job_id, traits, cancelled of every child that moved, then the number of edges settled in each row.
-- Workers asleep on a queue that gets a due child are rung, at most four.
-- Locks: dependencies -> jobs (by id) -> entries (insert) -> sleepers (skip locked) -> unique_holds.
with ended as materialized (
    select e.parent, e.failed from unnest(%(parents)s::uuid[], %(failed)s::boolean[]) as e (parent, failed)
), open_edges as materialized (
    select d.edge
    from ended e
    cross join lateral (
        select o.ctid as edge from tidemill.job_dependencies o
        where o.depends_on_job_id = e.parent and o.settled_at is null
        order by o.job_id limit %(limit)s::integer for update
    ) d
    limit %(limit)s::integer
), edges as (
    -- By place, because a join would read all open edges of everybody wherever the planner thinks that there are few.
    update tidemill.job_dependencies d
    set settled_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    where d.ctid = any(array(select o.edge from open_edges o))
    returning d.job_id, d.depends_on_job_id
), tally as materialized (
    select d.job_id, count(*)::integer as parents, bool_or(e.failed) as any_failed
    from edges d join ended e on e.parent = d.depends_on_job_id
    group by d.job_id
), children as materialized (
    select j.id, t.parents, t.any_failed
    from tally t join tidemill.jobs j on j.id = t.job_id
    where j.phase = 'waiting' or (j.phase = 'quarantined' and j.pending_parents > 0)
    order by j.id
    for update of j
), moved as (
    update tidemill.jobs j
    set pending_parents = case when c.any_failed and coalesce(j.on_parent_failure, 'cancel') = 'cancel' then 0
                               else greatest(0, j.pending_parents - c.parents) end,
        is_held = case when c.any_failed and coalesce(j.on_parent_failure, 'cancel') = 'cancel' then false
                       else j.is_held or (c.any_failed and j.on_parent_failure = 'hold') end,
        phase = case when c.any_failed and coalesce(j.on_parent_failure, 'cancel') = 'cancel' then 'cancelled'
                     when j.phase = 'quarantined' then 'quarantined'
                     when j.pending_parents - c.parents > 0 or j.is_held or (c.any_failed and j.on_parent_failure = 'hold') then 'waiting'
                     else 'moving' end::tidemill.job_phase,
        run_at = greatest(j.run_at, coalesce(%(now)s::timestamptz, statement_timestamp())),
        final_reason = case when j.phase = 'quarantined' and not (c.any_failed and coalesce(j.on_parent_failure, 'cancel') = 'cancel') then j.final_reason
            when c.any_failed and coalesce(j.on_parent_failure, 'cancel') = 'cancel' then 'parent_failed' end,
        finalized_at = case when c.any_failed and coalesce(j.on_parent_failure, 'cancel') = 'cancel'
                            then coalesce(%(now)s::timestamptz, statement_timestamp()) end,
        retention_until = case when c.any_failed and coalesce(j.on_parent_failure, 'cancel') = 'cancel' then greatest(
            coalesce(%(now)s::timestamptz, statement_timestamp())
                + make_interval(secs => coalesce(j.retention_ms, q.retention_cancelled_ms) / 1000.0), j.unique_until) end,
        updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    from children c, tidemill.queues q
    where j.id = c.id and j.phase in ('waiting', 'quarantined') and q.id = j.queue_id
    returning j.*, tidemill.job_traits(j) as traits
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at) select m.queue_id, m.id, m.run_at from moved m where m.lane <> 0 and m.phase = 'moving'
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select m.queue_id, m.priority, m.run_at, m.id, m.attempt_count, m.fence,
           m.traits,
           nullif(m.weight, 1), m.lane
    from moved m where m.phase = 'moving'
), levels as (
    insert into tidemill.queue_levels (queue_id, priority)
    select distinct m.queue_id, m.priority from moved m
    where m.phase = 'moving' and not exists (select 1 from tidemill.queue_levels l where l.queue_id = m.queue_id and l.priority = m.priority)
), rung as (
    delete from tidemill.queue_sleepers s
    where (s.queue_id, s.worker_id) in (
        select w.queue_id, w.worker_id from tidemill.queue_sleepers w
        where w.queue_id in (select m.queue_id from moved m
                             where m.phase = 'moving' and m.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp()))
        limit 4 for update skip locked)
    returning s.worker_id
), freed as (
    delete from tidemill.unique_holds h
    using moved m
    where m.phase = 'cancelled' and m.unique_window in ('pending', 'running') and h.job_id = m.id and h.kind = 'unique'
)
select t.job_id::text,
       coalesce(m.traits, 0::smallint) as traits,
       m.phase is not distinct from 'cancelled' as cancelled,
       (select count(*) from edges) as edges,
       (select count(pg_notify('tidemill_' || replace(r.worker_id::text, '-', ''), '')) from rung r) as rung
from tally t left join moved m on m.id = t.job_id
