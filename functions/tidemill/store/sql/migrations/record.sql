-- Remember that a migration was applied; in the transaction that applied it.
-- Parameters: version integer, name text, checksum text (sha256, hex). Returns no rows.
insert into tidemill.schema_migrations (version, name, checksum)
values (%(version)s, %(name)s, %(checksum)s)
