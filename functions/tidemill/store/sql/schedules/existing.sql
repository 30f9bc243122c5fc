-- Which occurrences exist already. Parameters: ids uuid[], instants timestamptz[] of one length. Rows: schedule, instant.
select w.id::text, w.at
from unnest(%(ids)s::uuid[], %(instants)s::timestamptz[]) as w (id, at)
where exists (select 1 from tidemill.jobs j where j.scheduled_job_id = w.id and j.scheduled_for = w.at and j.phase <> 'cancelled')
