-- The database's clock. Parameters: now timestamptz or null. Rows: one instant.
select coalesce(%(now)s::timestamptz, clock_timestamp())
