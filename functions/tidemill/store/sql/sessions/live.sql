-- Is a session alive? Parameters: family_id, user_id uuid. Rows: one if it is. Locks: none.
select true
from tidemill.sessions s
join tidemill.users u on u.id = s.user_id and u.is_active
where s.family_id = %(family_id)s::uuid and s.user_id = %(user_id)s::uuid and s.revoked_at is null and s.expires_at > statement_timestamp()
limit 1
