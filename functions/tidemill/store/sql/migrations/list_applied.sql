-- Every applied migration.
-- Parameters: none. Returns rows: version integer, name text, checksum text (sha256, hex); by version.
select version, name, checksum
from tidemill.schema_migrations
order by version
