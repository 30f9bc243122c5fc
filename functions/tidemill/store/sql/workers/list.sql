-- A project's workers in the order they came, or one of them. Parameters: project_id uuid; id uuid or null (all); after uuid or null (exclusive); limit integer;
--   name, version, queue text or null (any); live boolean or null (either).
-- Rows: at most limit; is_live: seen within the length of its leases. Locks: none.
select w.id::text, w.name, w.hostname, w.pid, w.version, w.job_types, w.max_concurrency, w.lease_ms, w.status::text, w.command::text,
       w.active_job_count, w.cpu_percent, w.memory_mb, w.started_at, w.last_seen_at,
       array(select q.name::text from tidemill.queues q where q.id = any(w.subscribed_queues) order by q.name) as queues,
       w.last_seen_at > statement_timestamp() - make_interval(secs => w.lease_ms / 1000.0) as is_live
from tidemill.workers w
where w.project_id = %(project_id)s::uuid
  and (%(name)s::text is null or w.name = %(name)s::text)
  and (%(version)s::text is null or w.version = %(version)s::text)
  and (%(queue)s::text is null or exists (select 1 from tidemill.queues q where q.id = any(w.subscribed_queues) and q.name = %(queue)s::text))
  and (%(live)s::boolean is null or %(live)s::boolean = (w.last_seen_at > statement_timestamp() - make_interval(secs => w.lease_ms / 1000.0)))
  and (%(id)s::uuid is null or w.id = %(id)s::uuid)
  and w.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
order by w.id
limit %(limit)s::integer
