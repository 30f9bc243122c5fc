-- Jobs that died of late and that nobody has settled, the last first. Parameters: project_id uuid; hours integer: how far back; limit integer.
-- Rows: at most limit ids in order. Locks: none.
select d.job_id::text
from tidemill.dead_letter_queue d
where d.project_id = %(project_id)s::uuid and not d.resolved and d.moved_at >= statement_timestamp() - make_interval(hours => %(hours)s::integer)
order by d.moved_at desc, d.id desc
limit %(limit)s::integer
