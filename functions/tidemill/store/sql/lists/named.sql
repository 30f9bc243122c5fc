-- Ids of the job that has this id, and of those with this idempotency key. Parameters: project_id uuid; value text; id uuid or null; descending boolean;
--   after uuid or null (exclusive); low, high uuid or null (inclusive: what the creation times leave); limit integer.
-- Rows: at most limit ids in order; two look-ups. Locks: none.
with named as materialized (
    select j.id from tidemill.jobs j where j.id = %(id)s::uuid and j.project_id = %(project_id)s::uuid
    union
    select k.id from (
        select j.id from tidemill.jobs j
        where j.project_id = %(project_id)s::uuid and j.idempotency_key = %(value)s::text
        limit 100) k
)
select n.id::text, null::timestamptz as key
from named n
where n.id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  and (%(after)s::uuid is null or case when %(descending)s::boolean then n.id < %(after)s::uuid else n.id > %(after)s::uuid end)
order by case when %(descending)s::boolean then n.id end desc, case when not %(descending)s::boolean then n.id end
limit %(limit)s::integer
