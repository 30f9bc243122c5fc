-- Calls that wait although their job has ended or is gone: its courier died in the last attempt. Parameters: limit integer; now timestamptz or null.
-- Rows: ids, at most limit. Locks: none.
select d.id::text
from tidemill.webhook_deliveries d
cross join lateral (select (select j.phase from tidemill.jobs j where j.id = d.id) as phase) j
where d.status = 'waiting' and d.created_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '1 minute'
  and (j.phase is null or j.phase in ('dead_letter', 'cancelled', 'quarantined'))
order by d.created_at
limit %(limit)s::integer
