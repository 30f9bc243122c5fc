-- The last open dead letter of each of these kinds of errors, in the queue and of the job type that the news are about.
-- Parameters: project_id uuid; groups text[] (hex), queue_ids uuid[], job_types text[] of one length.
-- Rows: group (hex), the queue's name, and of the job: id, attempts made; null where none is among the last hundred. Locks: none.
select g.error_group, q.name::text, d.job_id::text, d.attempt_count
from unnest(%(groups)s::text[], %(queue_ids)s::uuid[], %(job_types)s::text[]) as g (error_group, queue_id, job_type)
left join tidemill.queues q on q.id = g.queue_id
left join lateral (
    select o.job_id, o.attempt_count
    from (select i.job_id, i.attempt_count, i.queue_id, i.job_type from tidemill.dead_letter_queue i
          where i.project_id = %(project_id)s::uuid and i.error_group = decode(g.error_group, 'hex') and not i.resolved
          order by i.moved_at desc, i.id desc limit 100) o
    where o.queue_id = g.queue_id and o.job_type = g.job_type
    limit 1) d on true
