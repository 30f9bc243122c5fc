-- A user of this email: the one there is, or a new one. Parameters: id uuid; email, full_name text; password_hash text: a new one's.
-- Rows: the user's id, and whether it is new. Locks: user.
insert into tidemill.users as u (id, email, full_name, password_hash)
values (%(id)s::uuid, lower(%(email)s::text), %(full_name)s::text, %(password_hash)s::text)
on conflict (email) do update set email = excluded.email
returning u.id::text, u.id = %(id)s::uuid as is_new
