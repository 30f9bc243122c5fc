-- A project's retry policies by name, or one of them. Parameters: project_id uuid; name text or null (all); after text or null (exclusive); limit integer.
-- Rows: at most limit. Locks: none.
select p.id::text, p.name::text, p.strategy::text, p.base_delay_ms, p.multiplier, p.max_delay_ms, p.max_attempts, p.jitter, p.created_at, p.updated_at
from tidemill.retry_policies p
where p.project_id = %(project_id)s::uuid and (%(name)s::text is null or p.name = %(name)s::text)
  and (%(after)s::text is null or p.name > %(after)s::text)
order by p.name
limit %(limit)s::integer
