-- Notes that a key was used, at most once a minute; whoever comes second does not wait. Parameters: key_id uuid. Rows: none. Locks: key (skip locked).
update tidemill.api_keys k
set last_used_at = statement_timestamp()
where k.id in (
    select u.id from tidemill.api_keys u
    where u.id = %(key_id)s::uuid and coalesce(u.last_used_at < statement_timestamp() - interval '1 minute', true)
    for no key update skip locked)
