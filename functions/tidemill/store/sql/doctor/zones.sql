-- Schedules that were reckoned with other zone data than this code's. Parameters: release text; most integer. Rows: one: how many, counted up to most. Locks: none.
select count(*) from (
    select 1 from tidemill.scheduled_jobs s
    where s.is_active and s.cron_expression is not null and s.zone_data_release is distinct from %(release)s::text
    limit %(most)s::integer) n
