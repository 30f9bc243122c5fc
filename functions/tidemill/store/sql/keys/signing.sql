-- The keys that sign for a purpose, the newest first. Parameters: purpose text; overlap_secs integer: for how long a retired one is still taken back.
-- Rows: kid, secret, whether it still signs. Locks: none.
select k.kid::text, k.secret, k.retired_at is null as signs
from tidemill.signing_keys k
where k.purpose = %(purpose)s::text
  and (k.retired_at is null or k.retired_at > statement_timestamp() - make_interval(secs => %(overlap_secs)s::integer))
order by k.created_at desc
limit 10
