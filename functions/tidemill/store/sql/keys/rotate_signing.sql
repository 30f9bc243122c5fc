-- A new key that signs for a purpose; those before it are retired. Noted in the audit log. Parameters: purpose text; secret bytea; ago_secs integer: retired so
-- long ago (0: now). Rows: the new kid. Locks: keys.
with retired as (
    update tidemill.signing_keys o
    set retired_at = least(o.retired_at, statement_timestamp() - make_interval(secs => %(ago_secs)s::integer))
    where o.purpose = %(purpose)s::text
), made as (
    insert into tidemill.signing_keys as k (purpose, secret) values (%(purpose)s::text, %(secret)s::bytea) returning k.kid
), noted as (
    insert into tidemill.audit_log (actor_kind, action, target_kind, target_id, after)
    select 'system', 'signing_keys.rotate', 'signing_key', m.kid::text,
           jsonb_build_object('purpose', %(purpose)s::text, 'reason', case when %(ago_secs)s::integer > 0 then 'it has leaked' else 'by hand' end)
    from made m
)
select m.kid::text from made m
