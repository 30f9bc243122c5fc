-- Occurrences that were made ready and have not begun. Parameters: ids uuid[] (schedules); starting boolean (also those whose instant has come
-- and which only their jitter or delay holds back); now timestamptz. Rows: schedule, project, job, instant, in order.
select s.id::text, j.project_id::text, j.id::text, j.scheduled_for
from tidemill.scheduled_jobs s
cross join lateral (
    select j.* from tidemill.jobs j
    where j.scheduled_job_id = s.id and j.phase <> 'cancelled'
      and j.scheduled_for > %(now)s::timestamptz - make_interval(secs => case when %(starting)s::boolean
          then (s.jitter_ms + coalesce((s.job ->> 'delay_ms')::numeric, 0)) / 1000.0 else 0 end::double precision)
    order by j.scheduled_for
    limit 1000
) j
left join tidemill.job_queue_entries e
    on e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at and e.job_id = j.id
where s.id = any(%(ids)s::uuid[])
  and (j.phase = 'waiting' and j.scheduled_for > %(now)s::timestamptz
       or j.phase = 'moving' and e.fence = 0 and e.run_at > %(now)s::timestamptz)
order by s.id, j.scheduled_for
