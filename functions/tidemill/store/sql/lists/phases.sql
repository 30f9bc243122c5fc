-- Ids of the jobs in phases that `jobs` itself remembers, in creation order. Parameters: project_id uuid; phases text[]; descending boolean;
--   after uuid or null (exclusive); low, high uuid or null (inclusive); limit integer. Rows: at most limit ids in order. Locks: none.
select w.id::text, null::timestamptz as key
from unnest(%(phases)s::tidemill.job_phase[]) as p (phase)
cross join lateral (
    (
        select j.id from tidemill.jobs j
        where %(descending)s::boolean and j.project_id = %(project_id)s::uuid and j.phase = p.phase and j.phase <> 'moving'
          and j.id < coalesce(%(after)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
          and j.id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        order by j.id desc limit %(limit)s::integer
    ) union all (
        select j.id from tidemill.jobs j
        where not %(descending)s::boolean and j.project_id = %(project_id)s::uuid and j.phase = p.phase and j.phase <> 'moving'
          and j.id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
          and j.id between coalesce(%(low)s::uuid, '00000000-0000-0000-0000-000000000000') and coalesce(%(high)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        order by j.id limit %(limit)s::integer
    )
) w
order by case when %(descending)s::boolean then w.id end desc, case when not %(descending)s::boolean then w.id end
limit %(limit)s::integer
