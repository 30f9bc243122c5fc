-- Whether the scheduler comes by. Parameters: none. Rows: one: by how many seconds the oldest due schedule is late, and the oldest lease that has run out
--   (each null: none is). Locks: none.
select (select extract(epoch from clock_timestamp() - s.next_run_at)::double precision from tidemill.scheduled_jobs s
        where s.is_active and s.next_run_at is not null and s.next_run_at < clock_timestamp() order by s.next_run_at, s.id limit 1),
       (select extract(epoch from clock_timestamp() - l.lease_expires_at)::double precision from tidemill.job_leases l
        where l.lease_expires_at < clock_timestamp() order by l.lease_expires_at limit 1)
