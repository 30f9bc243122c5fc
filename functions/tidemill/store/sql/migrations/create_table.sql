-- Which migrations were applied, when, and what they said then. Only under the migrators' lock.
-- Parameters: none. Returns no rows.
create table if not exists tidemill.schema_migrations (
    version integer primary key check (version > 0),
    name text not null check (length(name) between 1 and 200),
    checksum text not null check (length(checksum) = 64),
    applied_at timestamptz not null default clock_timestamp()
)
