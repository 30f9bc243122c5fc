-- The keys that sign cursors, the newest first. Parameters: none. Rows: kid, secret, whether it still signs. Locks: none.
select k.kid::text, k.secret, k.retired_at is null as signs
from tidemill.signing_keys k
where k.purpose = 'cursor' and (k.retired_at is null or k.retired_at > statement_timestamp() - interval '1 day')
order by k.created_at desc
limit 10
