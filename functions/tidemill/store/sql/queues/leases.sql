-- How many jobs of a queue are leased, at most %(limit)s. Leases are few. Parameters: queue_id uuid; limit integer. Rows: one count. Locks: none.
select count(*) from (select 1 from tidemill.job_leases l where l.queue_id = %(queue_id)s::uuid limit %(limit)s::integer) h
