-- Count a login before it is tried, unless its account or address (`kind`) has to wait. Parameters: kind text; slot bigint; key bytea; free integer: failures
--   without a wait; most_secs, forget_secs integer: the longest wait, and after how much peace the failures are forgotten.
-- Rows: one: whether it has to wait, and for how many seconds then. A slot that waits for another key is left to it: that attempt is not counted. Locks: slot.
insert into tidemill.login_slots as s (kind, slot, key, failures, last_at, is_refused)
values (%(kind)s::text, %(slot)s::bigint, %(key)s::bytea, 1, clock_timestamp(), false)
on conflict (kind, slot) do update set (key, failures, last_at, is_refused) = (
    select case when f.is_hot or (f.is_same and not f.is_old) then s.key else excluded.key end,
           case when f.is_hot then s.failures when f.is_same and not f.is_old then least(s.failures + 1, 1000) else 1 end,
           case when f.is_hot then s.last_at else excluded.last_at end,
           f.is_hot and f.is_same
    from (select s.key = excluded.key as is_same,
                 s.last_at < excluded.last_at - make_interval(secs => %(forget_secs)s::integer) as is_old,
                 s.failures >= %(free)s::integer and excluded.last_at < s.last_at + make_interval(
                     secs => least(power(2, s.failures - %(free)s::integer), %(most_secs)s::integer)) as is_hot) f)
returning s.is_refused, greatest(1, ceil(extract(epoch from s.last_at - clock_timestamp())
          + least(power(2, greatest(0, s.failures - %(free)s::integer)), %(most_secs)s::integer)))::integer as wait_secs
