-- Due jobs of types with a standing limit that still stand among those without gates go to their lanes. One bounded step over all queues of the
-- projects that have such limits (or of one project). Parameters: project_id uuid or null (all); limit, look integer (how many are moved per queue, and looked
--   at per priority of a queue); now timestamptz or null. Rows: one: how many moved, and the most that one queue moved. Locks: entries -> jobs, both skip locked.
with limited as materialized (
    select c.project_id, array_agg(c.job_type::text) as types
    from tidemill.concurrency_limits c
    where c.job_type is not null and (%(project_id)s::uuid is null or c.project_id = %(project_id)s::uuid)
    group by c.project_id
    limit 1000
), moved as materialized (
    select tidemill.relane(q.id, l.types, %(limit)s::integer, coalesce(%(now)s::timestamptz, statement_timestamp()),
                           %(look)s::integer) as n
    from limited l join tidemill.queues q on q.project_id = l.project_id
)
select coalesce(sum(m.n), 0)::bigint, coalesce(max(m.n), 0)::bigint from moved m
