-- A project's workers in figures. Parameters: project_id uuid; limit integer: how many of the last ones are looked at.
-- Rows: one per version: version, live, stale, and of the live ones: jobs at work, room for jobs. Locks: none.
select w.version, count(*) filter (where w.is_live) as live, count(*) filter (where not w.is_live) as stale,
       coalesce(sum(w.active_job_count) filter (where w.is_live), 0) as active, coalesce(sum(w.max_concurrency) filter (where w.is_live), 0) as room
from (
    select i.version, i.active_job_count, i.max_concurrency,
           i.last_seen_at > statement_timestamp() - make_interval(secs => i.lease_ms / 1000.0) as is_live
    from tidemill.workers i
    where i.project_id = %(project_id)s::uuid
    order by i.id desc
    limit %(limit)s::integer
) w
group by w.version
order by w.version
