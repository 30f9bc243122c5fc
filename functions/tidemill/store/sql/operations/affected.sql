-- The next jobs that an operation has moved, and where each was. Parameters: id uuid; after uuid or null (exclusive); limit integer.
-- Rows: job_id, was, in id order. Locks: none.
select a.job_id::text, a.was::text
from tidemill.operation_jobs a
where a.operation_id = %(id)s::uuid and a.job_id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
order by a.job_id
limit %(limit)s::integer
