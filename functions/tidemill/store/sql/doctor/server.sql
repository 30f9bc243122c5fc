-- The server, and how many connections it has left. Parameters: none. Rows: one: version number, version, most connections, of those kept for superusers,
--   in use, this project's, whether a crash may lose what was committed. Locks: none.
select current_setting('server_version_num')::integer, current_setting('server_version'),
       current_setting('max_connections')::integer, current_setting('superuser_reserved_connections')::integer,
       (select count(*) from pg_stat_activity a where a.backend_type = 'client backend'),
       (select count(*) from pg_stat_activity a where a.backend_type = 'client backend' and a.application_name like 'tidemill%%'),
       current_setting('fsync') = 'off' or current_setting('full_page_writes') = 'off' or current_setting('synchronous_commit') = 'off'
