-- Notes how far the walk over a cancelled batch's members is. Parameters: batch_id uuid; after uuid or null (it is over). Rows: none. Locks: batch.
update tidemill.job_batches b
set cancel_after = %(after)s::uuid
where b.id = %(batch_id)s::uuid and b.cancel_after is not null
