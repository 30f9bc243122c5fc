-- A refresh token that was handed in. Parameters: refresh_hash bytea. Rows: its session, if there is one: whether it is over, and how long ago it was
--   exchanged for the next one in ms (null: not yet). Locks: session.
select s.id::text, s.family_id::text, s.user_id::text, u.email, u.full_name,
       s.revoked_at is not null or s.expires_at <= clock_timestamp() or not u.is_active as is_over,
       (extract(epoch from clock_timestamp() - s.rotated_at) * 1000)::bigint as rotated_ms
from tidemill.sessions s
join tidemill.users u on u.id = s.user_id
where s.refresh_hash = %(refresh_hash)s::bytea
for no key update of s
