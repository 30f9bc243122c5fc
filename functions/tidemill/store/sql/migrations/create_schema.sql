-- The schema that holds everything. Only under the migrators' lock: two at once would both see it missing.
-- Parameters: none. Returns no rows.
create schema if not exists tidemill
