-- Dead letters as the API shows them. Parameters: project_id uuid; ids uuid[]; payload boolean (else null instead of it).
-- Rows: one per dead letter of the project, in no order; JSON as text. Every join is a key look-up. Locks: none.
select d.id::text, d.job_id::text, q.name::text as queue, d.job_type, d.failure_reason as reason, d.attempt_count, d.error_class, d.last_error as error_message,
       encode(d.error_group, 'hex') as error_group, d.moved_at, d.resolved, d.resolution_action as resolution, d.resolved_at, d.resolved_by::text, d.note,
       case when %(payload)s::boolean then d.payload_snapshot::text end as payload
from tidemill.dead_letter_queue d
join tidemill.queues q on q.id = d.queue_id
where d.id = any(%(ids)s::uuid[]) and d.project_id = %(project_id)s::uuid
