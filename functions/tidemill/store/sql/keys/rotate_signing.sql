-- A new key that signs for a purpose; those before it are retired. Parameters: purpose text; secret bytea; ago_secs integer: retired so long ago (0: now).
-- Rows: the new kid. Locks: keys.
with retired as (
    update tidemill.signing_keys o
    set retired_at = least(o.retired_at, statement_timestamp() - make_interval(secs => %(ago_secs)s::integer))
    where o.purpose = %(purpose)s::text
)
insert into tidemill.signing_keys as k (purpose, secret) values (%(purpose)s::text, %(secret)s::bytea) returning k.kid::text
