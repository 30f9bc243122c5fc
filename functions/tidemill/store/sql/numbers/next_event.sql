-- The first instant from %(since)s on at which a job was created or an attempt ended: one index look-up per project, and four per queue.
-- Parameters: since timestamptz; since_id uuid (the least id that a job created then can have). Rows: one: at, or null. Locks: none.
select least(
    (select min(f.at) from tidemill.projects p cross join lateral (
        select to_timestamp(('x' || lpad(left(replace(j.id::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0) as at
        from tidemill.jobs j where j.project_id = p.id and j.id >= %(since_id)s::uuid order by j.id limit 1) f),
    (select min(f.at) from tidemill.queues q cross join lateral (
        (select x.finished_at as at from tidemill.job_executions x
         where x.queue_id = q.id and x.status = 'completed' and x.retention_until is null and x.finished_at >= %(since)s::timestamptz
         order by x.finished_at limit 1)
        union all
        (select x.finished_at from tidemill.job_executions x
         where x.queue_id = q.id and x.status = 'completed' and x.retention_until is not null and x.finished_at >= %(since)s::timestamptz
         order by x.finished_at limit 1)
        union all
        (select x.finished_at from tidemill.job_executions x
         where x.queue_id = q.id and x.status <> 'completed' and x.finished_at >= %(since)s::timestamptz
         order by x.finished_at limit 1)) f)) as at
