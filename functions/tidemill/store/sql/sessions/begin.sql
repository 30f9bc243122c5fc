-- A new family of refresh tokens. Parameters: id, user_id, family_id uuid; refresh_hash bytea; idle_secs integer. Rows: the database's time. Locks: none.
insert into tidemill.sessions as s (id, user_id, family_id, refresh_hash, expires_at, family_started_at)
values (%(id)s::uuid, %(user_id)s::uuid, %(family_id)s::uuid, %(refresh_hash)s::bytea,
        clock_timestamp() + make_interval(secs => %(idle_secs)s::integer), clock_timestamp())
returning extract(epoch from s.created_at)::bigint as now
