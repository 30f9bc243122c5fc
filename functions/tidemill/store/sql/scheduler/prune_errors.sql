-- Prune: hours that no chart shows any more, and kinds of errors that nobody has seen for long and that have no open dead letter.
-- Parameters: hours_ms, groups_ms bigint: how long each is kept; limit integer; now timestamptz or null. Rows: one: (hours, groups) removed.
-- Locks: error_group_hours, error_groups (skip locked).
with hours as (
    delete from tidemill.error_group_hours h
    where h.ctid = any(array(
        select m.ctid from tidemill.error_group_hours m
        where m.hour < coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(hours_ms)s::bigint / 1000.0)
        order by m.hour limit %(limit)s::integer for update skip locked))
    returning 1
), groups as (
    delete from tidemill.error_groups g
    where g.ctid = any(array(
        select m.ctid from tidemill.error_groups m
        where m.open_count <= 0 and m.last_seen_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(groups_ms)s::bigint / 1000.0)
        order by m.last_seen_at limit %(limit)s::integer for update skip locked))
    returning 1
)
select (select count(*) from hours), (select count(*) from groups)
