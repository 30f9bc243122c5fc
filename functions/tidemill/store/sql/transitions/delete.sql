-- Delete jobs with all that belongs to them, unless leased. Parameters: project_id uuid; job_ids uuid[] (sorted).
-- Rows: id, whether others depend on it, its batch, how it had ended (completed | failed | cancelled | null) of each that was deleted. Locks: entries -> jobs -> executions -> unique_holds -> dead_letter_queue.
with gone as (
    delete from tidemill.job_queue_entries e
    using tidemill.jobs j
    where j.id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid
      and e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
    returning e.job_id, e.queue_id, e.lane, e.priority
), news as (
    -- it may have stood in front of a lane that waits for what it costs
    insert into tidemill.lane_news (queue_id, lane, priority, run_at)
    select distinct g.queue_id, g.lane, g.priority, statement_timestamp() from gone g where g.lane <> 0
), over as materialized (
    -- A join, not `in (select … from gone)`: where a row has changed meanwhile Postgres looks at it again, and then it cannot run a
    -- subquery over a CTE that deletes ("ModifyTable should not be called during EvalPlanQual").
    select j.id, g.job_id is not null as was_waiting
    from tidemill.jobs j left join gone g on g.job_id = j.id
    where j.id = any(%(job_ids)s::uuid[]) and j.project_id = %(project_id)s::uuid
      and (j.phase <> 'moving' or g.job_id is not null
           or exists (select 1 from tidemill.job_executions x where x.job_id = j.id and x.status = 'completed'))
    order by j.id
    for update of j
), jobs as (
    delete from tidemill.jobs j using over o where j.id = o.id
    returning j.id, j.batch_id, j.has_children, j.phase, o.was_waiting
), executions as (
    delete from tidemill.job_executions x using jobs j where x.job_id = j.id
), logs as (
    delete from tidemill.job_logs g using jobs j where g.job_id = j.id
), holds as (
    delete from tidemill.unique_holds h
    where (h.project_id, h.kind, h.key) in (
        select u.project_id, u.kind, u.key from jobs j join tidemill.unique_holds u on u.job_id = j.id
        order by u.kind, u.key for update of u)
), dead as (
    delete from tidemill.dead_letter_queue d using jobs j where d.job_id = j.id
), edges as (
    delete from tidemill.job_dependencies d using jobs j where d.job_id = j.id
)
select j.id::text, j.has_children, j.batch_id::text,
       case when j.phase = 'dead_letter' then 'failed' when j.phase = 'cancelled' then 'cancelled'
            when j.phase = 'moving' and not j.was_waiting then 'completed' end as outcome
from jobs j
