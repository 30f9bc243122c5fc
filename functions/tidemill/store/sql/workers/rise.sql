-- A worker has all the work it can take: nobody rings it any more. Parameters: worker_id uuid. Rows: one per queue it slept on. Locks: sleepers.
delete from tidemill.queue_sleepers s where s.worker_id = %(worker_id)s::uuid returning s.queue_id::text
