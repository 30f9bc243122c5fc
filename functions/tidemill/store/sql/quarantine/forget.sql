-- Forgets losses that no longer count. Parameters: window_ms bigint; limit integer; now timestamptz or null. Rows: one: count. Locks: quarantine (skip locked).
with gone as (
    delete from tidemill.quarantine x
    where (x.project_id, x.fingerprint) in (
        select o.project_id, o.fingerprint from tidemill.quarantine o
        where o.quarantined_at is null
          and o.last_loss_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(window_ms)s::bigint / 1000.0)
        order by o.last_loss_at limit %(limit)s::integer for update skip locked)
    returning 1
)
select count(*) from gone
