-- The next jobs that an operation has moved, and where each was. Parameters: id uuid; after uuid or null (exclusive); limit integer.
-- Rows: job_id, was, in id order. Locks: none. Walks the key from a place on, and looks afterwards whose rows those are: statistics of a table that has
-- just been filled would have it sort all that is left for each batch.
with next as materialized (
    select a.operation_id, a.job_id, a.was
    from tidemill.operation_jobs a
    where (a.operation_id, a.job_id) > (%(id)s::uuid, coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000'))
    order by a.operation_id, a.job_id
    limit %(limit)s::integer
)
select n.job_id::text, n.was::text from next n where n.operation_id = %(id)s::uuid order by n.job_id
