-- Prune: frees unique keys whose ttl is over. Parameters: limit integer; now timestamptz or null. Rows: count. Locks: unique_holds (skip locked).
with gone as (
    delete from tidemill.unique_holds h
    where (h.project_id, h.kind, h.key) in (
        select u.project_id, u.kind, u.key from tidemill.unique_holds u
        where u.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
        order by u.expires_at
        limit %(limit)s::integer for update skip locked)
    returning 1
)
select count(*) from gone
