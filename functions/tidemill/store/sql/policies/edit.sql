-- Change a retry policy; jobs that name it follow from their next failure on. Parameters: project_id uuid; name text; fields text (a JSON object: what
--   it leaves out stays). Rows: its id, if the project has it. Locks: policy.
update tidemill.retry_policies p
set strategy = coalesce(f.strategy, p.strategy), base_delay_ms = coalesce(f.base_delay_ms, p.base_delay_ms),
    multiplier = coalesce(f.multiplier, p.multiplier), max_delay_ms = coalesce(f.max_delay_ms, p.max_delay_ms),
    max_attempts = coalesce(f.max_attempts, p.max_attempts), jitter = coalesce(f.jitter, p.jitter), updated_at = statement_timestamp()
from jsonb_to_record(%(fields)s::jsonb) as f (
    strategy tidemill.retry_strategy, base_delay_ms bigint, multiplier double precision, max_delay_ms bigint, max_attempts integer, jitter boolean)
where p.project_id = %(project_id)s::uuid and p.name = %(name)s::text
returning p.id::text
