-- Has this database ever been migrated?
-- Parameters: none. Returns one row: exists boolean.
select to_regclass('tidemill.schema_migrations') is not null as exists
