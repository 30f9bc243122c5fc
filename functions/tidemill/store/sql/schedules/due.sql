-- Locks schedules with an occurrence that nobody has decided about and that lies before now + ahead_ms, earliest first.
-- Parameters: after_at timestamptz, after_id uuid (start behind these; null = from the first); ahead_ms bigint; limit integer;
-- now timestamptz or null. Rows: id, now. Locks: schedules (skip locked): who comes second skips. Narrow, because the planner may
-- sort all that is due; and the columns must be read after the lock, by read.sql.
select s.id::text, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
from tidemill.scheduled_jobs s
where s.is_active
  and s.next_run_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) + make_interval(secs => %(ahead_ms)s::bigint / 1000.0)
  and (s.next_run_at, s.id) > (coalesce(%(after_at)s::timestamptz, '-infinity'),
                               coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000'))
order by s.next_run_at, s.id
limit %(limit)s::integer
for no key update of s skip locked
