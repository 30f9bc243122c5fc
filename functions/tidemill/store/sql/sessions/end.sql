-- End sessions: one family, or all of a user but one. Parameters: family_id uuid or null; user_id uuid or null; keep_family_id uuid or null.
-- Rows: the tokens that were alive. A family holds at most as many as its idle time has refreshes; older ones are pruned. Locks: sessions.
update tidemill.sessions s
set revoked_at = clock_timestamp()
where (s.family_id = %(family_id)s::uuid or (s.user_id = %(user_id)s::uuid and s.family_id is distinct from %(keep_family_id)s::uuid))
  and s.revoked_at is null
returning s.id::text
