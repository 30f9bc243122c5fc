-- The version that the migrator has brought the schema to. Parameters: none. Rows: one.
select coalesce(max(m.version), 0)::integer from tidemill.schema_migrations m
