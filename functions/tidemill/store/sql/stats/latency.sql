-- How long a project's attempts waited and ran, as counts per bucket of domain/latency.py. Parameters: project_id uuid; queue text or null (all);
-- since timestamptz; most integer: rows, of which no more are read. Rows: bucket, waits, runs. Locks: none.
select b.bucket, sum(b.waits)::bigint as waits, sum(b.runs)::bigint as runs
from (
    select l.bucket, l.waits, l.runs
    from tidemill.queues q
    cross join lateral (
        select i.* from tidemill.queue_latencies i where i.queue_id = q.id and i.slot >= %(since)s::timestamptz order by i.slot desc) l
    where q.project_id = %(project_id)s::uuid and (%(queue)s::text is null or q.name = %(queue)s::text)
    limit %(most)s::integer) b
group by b.bucket
order by b.bucket
