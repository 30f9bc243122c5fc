-- A project's standing limits by name, or one of them. Parameters: project_id uuid; name text or null (all); after text or null (exclusive); limit integer.
-- Rows: at most limit; running: leases that count towards it, no further than its limit. Locks: none.
select c.name::text, q.name::text as queue, c.job_type::text, c.max_concurrent, c.on_saturated::text,
       case when c.queue_id is not null then (
           select count(*) from (select 1 from tidemill.job_leases l
                                 where l.queue_id = c.queue_id and l.traits & 128 <> 0 limit c.max_concurrent + 1) x)
       else (
           select count(*) from (select 1 from tidemill.job_leases l
                                 where l.type_key = tidemill.type_key(c.project_id, c.job_type) limit c.max_concurrent + 1) x) end as running,
       c.created_at
from tidemill.concurrency_limits c
left join tidemill.queues q on q.id = c.queue_id
where c.project_id = %(project_id)s::uuid and (%(name)s::text is null or c.name = %(name)s::text)
  and (%(after)s::text is null or c.name > %(after)s::text)
order by c.name
limit %(limit)s::integer
