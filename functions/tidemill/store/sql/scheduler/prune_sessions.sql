-- Prune: refresh tokens that are over for a day. Until then a spent one that comes again ends its family. Parameters: limit integer; now timestamptz or null.
-- Rows: one: how many. Locks: sessions (skip locked).
with gone as (
    delete from tidemill.sessions s where s.id in (
        select o.id from tidemill.sessions o
        where o.expires_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '1 day'
        order by o.expires_at
        limit %(limit)s::integer for update skip locked)
    returning 1
)
select count(*) from gone
