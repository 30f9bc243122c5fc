-- Prune: counters, samples and latencies older than they are kept, at most %(limit)s rows of each kind.
-- Parameters: minutes_kept, hours_kept, samples_kept, latencies_kept interval; limit integer; now timestamptz or null. Rows: one: count. Locks: rows (skip locked).
with minutes as (
    delete from tidemill.queue_counters c where (c.queue_id, c.minute) in (
        select o.queue_id, o.minute from tidemill.queue_counters o where o.minute < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(minutes_kept)s::interval
        order by o.minute limit %(limit)s::integer for update skip locked)
    returning 1
), hours as (
    delete from tidemill.queue_hours c where (c.queue_id, c.hour) in (
        select o.queue_id, o.hour from tidemill.queue_hours o where o.hour < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(hours_kept)s::interval
        order by o.hour limit %(limit)s::integer for update skip locked)
    returning 1
), samples as (
    delete from tidemill.queue_samples c where (c.queue_id, c.at) in (
        select o.queue_id, o.at from tidemill.queue_samples o where o.at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(samples_kept)s::interval
        order by o.at limit %(limit)s::integer for update skip locked)
    returning 1
), latencies as (
    delete from tidemill.queue_latencies c where (c.queue_id, c.slot, c.bucket) in (
        select o.queue_id, o.slot, o.bucket from tidemill.queue_latencies o where o.slot < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(latencies_kept)s::interval
        order by o.slot limit %(limit)s::integer for update skip locked)
    returning 1
)
select (select count(*) from minutes) + (select count(*) from hours) + (select count(*) from samples) + (select count(*) from latencies)
