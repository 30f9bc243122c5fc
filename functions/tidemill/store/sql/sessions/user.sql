-- The user who logs in or changes a password. Parameters: email text or null; id uuid or null. Rows: the active user, if there is one. Locks: none.
select u.id::text, u.email, u.full_name, u.password_hash
from tidemill.users u
where u.is_active and (u.email = lower(%(email)s::text) or u.id = %(id)s::uuid)
limit 1
