-- Which of these jobs match a filter, in the order given. Parameters: project_id uuid; ids uuid[]; every other one null (or empty) = anything:
--   queue, job_type, job_type_prefix, partition_key, rate_class, principal_id, correlation_id, error_class text; states text[]; retrying boolean
--   (a scheduled job that has been tried counts as a state too); tags, any_tags text[]; priority integer; fingerprint, error_group text (hex; the latter: of its open dead letter);
--   batch_id, scheduled_job_id, worker_id uuid; created_after, created_before timestamptz (after: inclusive, before: exclusive).
-- Rows: ids. Every join is a key look-up. Locks: none.
select s.id::text
from unnest(%(ids)s::uuid[]) with ordinality as g (id, place)
join tidemill.job_states s on s.id = g.id
where s.project_id = %(project_id)s::uuid
  and (%(queue)s::text is null or s.queue = %(queue)s::text)
  and (%(job_type)s::text is null or s.job_type = %(job_type)s::text)
  and (%(job_type_prefix)s::text is null or starts_with(s.job_type, %(job_type_prefix)s::text))
  and ((%(states)s::text[] is null and not %(retrying)s::boolean) or s.status::text = any(%(states)s::text[])
       or (%(retrying)s::boolean and s.status = 'scheduled' and s.attempt_count > 0))
  and (%(tags)s::text[] is null or s.tags @> %(tags)s::text[])
  and (%(any_tags)s::text[] is null or s.tags && %(any_tags)s::text[])
  and (%(partition_key)s::text is null or s.partition_key = %(partition_key)s::text)
  and (%(rate_class)s::text is null or s.rate_class = %(rate_class)s::text)
  and (%(priority)s::integer is null or s.priority = %(priority)s::integer)
  and (%(fingerprint)s::text is null or s.fingerprint = decode(%(fingerprint)s::text, 'hex'))
  and (%(batch_id)s::uuid is null or s.batch_id = %(batch_id)s::uuid)
  and (%(scheduled_job_id)s::uuid is null or s.scheduled_job_id = %(scheduled_job_id)s::uuid)
  and (%(worker_id)s::uuid is null or s.locked_by = %(worker_id)s::uuid)
  and (%(principal_id)s::text is null or s.principal_id = %(principal_id)s::text)
  and (%(correlation_id)s::text is null or s.correlation_id = %(correlation_id)s::text)
  and (%(error_class)s::text is null or s.error_class = %(error_class)s::text)
  and (%(error_group)s::text is null or exists (
      select 1 from tidemill.dead_letter_queue d where d.job_id = s.id and not d.resolved and d.error_group = decode(%(error_group)s::text, 'hex')))
  and (%(created_after)s::timestamptz is null or s.created_at >= %(created_after)s::timestamptz)
  and (%(created_before)s::timestamptz is null or s.created_at < %(created_before)s::timestamptz)
order by g.place
