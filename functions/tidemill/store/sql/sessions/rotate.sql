-- The next token of a family. Parameters: from_id, id uuid; refresh_hash bytea; idle_secs, most_secs integer: the family's longest peace and life.
-- Rows: the database's time; none if the family's life is over. Locks: session.
with spent as (
    update tidemill.sessions o set rotated_at = coalesce(o.rotated_at, clock_timestamp()) where o.id = %(from_id)s::uuid
    returning o.user_id, o.family_id, o.family_started_at
)
insert into tidemill.sessions as s (id, user_id, family_id, refresh_hash, expires_at, family_started_at)
select %(id)s::uuid, p.user_id, p.family_id, %(refresh_hash)s::bytea,
       least(clock_timestamp() + make_interval(secs => %(idle_secs)s::integer), p.family_started_at + make_interval(secs => %(most_secs)s::integer)),
       p.family_started_at
from spent p
where p.family_started_at + make_interval(secs => %(most_secs)s::integer) > clock_timestamp()
returning extract(epoch from s.created_at)::bigint as now
