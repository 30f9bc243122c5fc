-- A new retry policy. Parameters: id, project_id uuid; name text; fields text (a JSON object; what it leaves out has its default).
-- Rows: its id; none if the name is taken. Locks: none.
insert into tidemill.retry_policies as p (id, project_id, name, strategy, base_delay_ms, multiplier, max_delay_ms, max_attempts, jitter)
select %(id)s::uuid, %(project_id)s::uuid, %(name)s::text, coalesce(f.strategy, 'exponential'), coalesce(f.base_delay_ms, 5000),
       coalesce(f.multiplier, 2), coalesce(f.max_delay_ms, 3600000), coalesce(f.max_attempts, 5), coalesce(f.jitter, true)
from jsonb_to_record(%(fields)s::jsonb) as f (
    strategy tidemill.retry_strategy, base_delay_ms bigint, multiplier double precision, max_delay_ms bigint, max_attempts integer, jitter boolean)
on conflict (project_id, name) do nothing
returning p.id::text
