-- A user's new password. Parameters: user_id uuid; password_hash text. Rows: none. Locks: user.
update tidemill.users u set password_hash = %(password_hash)s::text, updated_at = clock_timestamp() where u.id = %(user_id)s::uuid
