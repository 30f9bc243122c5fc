-- Remove a closed queue that holds nothing, once nobody can put anything into it any more: every transaction that wrote, or looked, when it was closed is over, and
-- who began later has seen it closed. Parameters: queue_id uuid; closed_xid text (the transaction that closed it). Rows: one if it went. Locks: queue, and what belongs to it.
with due as materialized (
    select q.id from tidemill.queues q
    where q.id = %(queue_id)s::uuid and q.is_closed
      and pg_snapshot_xmin(pg_current_snapshot()) > %(closed_xid)s::text::xid8
      and not tidemill.is_seen_from_before(%(closed_xid)s::text::xid8)
      and not exists (select 1 from tidemill.job_queue_entries e where e.queue_id = q.id)
      and not exists (select 1 from tidemill.job_leases l where l.queue_id = q.id)
      and not exists (select 1 from tidemill.jobs j where j.queue_id = q.id and j.phase <> 'moving')
      and not exists (select 1 from tidemill.job_executions x where x.queue_id = q.id and x.status = 'completed' and x.retention_until is null)
      and not exists (select 1 from tidemill.job_executions x where x.queue_id = q.id and x.status = 'completed' and x.retention_until is not null)
    for update
), limits as (
    delete from tidemill.concurrency_limits c using due d where c.queue_id = d.id
), news as (
    delete from tidemill.lane_news n using due d where n.queue_id = d.id
), beds as (
    delete from tidemill.queue_sleepers s using due d where s.queue_id = d.id
), counters as (
    delete from tidemill.queue_counters c using due d where c.queue_id = d.id
), samples as (
    delete from tidemill.queue_samples s using due d where s.queue_id = d.id
)
delete from tidemill.queues q using due d where q.id = d.id
returning q.id::text
