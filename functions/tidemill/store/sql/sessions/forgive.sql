-- After a login that succeeded: its account has no failures, its address one less. Parameters: account_slot, address_slot bigint; account_key, address_key bytea.
-- Rows: none. Locks: slots.
update tidemill.login_slots s
set failures = case when s.kind = 'account' then 0 else greatest(0, s.failures - 1) end
where (s.kind = 'account' and s.slot = %(account_slot)s::bigint and s.key = %(account_key)s::bytea)
   or (s.kind = 'address' and s.slot = %(address_slot)s::bigint and s.key = %(address_key)s::bytea)
