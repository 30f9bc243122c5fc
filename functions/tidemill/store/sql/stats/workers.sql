-- A project's workers that are live (seen within the length of their leases), of the %(most)s that were registered last; those that serve the queue, if one is named.
-- Parameters: project_id uuid; queue text or null; most integer. Rows: one: workers, slots. Locks: none.
select count(*) as workers, coalesce(sum(w.max_concurrency), 0)::bigint as slots
from (
    select v.last_seen_at, v.lease_ms, v.max_concurrency, v.subscribed_queues from tidemill.workers v
    where v.project_id = %(project_id)s::uuid order by v.id desc limit %(most)s::integer) w
where w.last_seen_at > statement_timestamp() - make_interval(secs => w.lease_ms / 1000.0)
  and (%(queue)s::text is null or exists (
      select from tidemill.queues q where q.project_id = %(project_id)s::uuid and q.name = %(queue)s::text and q.id = any(w.subscribed_queues)))
