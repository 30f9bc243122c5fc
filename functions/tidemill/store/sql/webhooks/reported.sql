-- Notes how calls went, on the call and on its webhook. Parameters, all of one length: ids uuid[]; statuses integer[] (the answers'; null: none);
-- errors text[] (null: none); ends text[] (delivered | failed | dropped; null: it is tried again); now timestamptz or null.
-- A receiver that is gone (410) pauses its webhook. Rows: one: how many. Locks: webhook_deliveries -> webhooks, by id.
with told as materialized (
    select g.id, g.status, g.error, g.ends, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
    from unnest(%(ids)s::uuid[], %(statuses)s::integer[], %(errors)s::text[], %(ends)s::text[]) as g (id, status, error, ends)
), calls as (
    update tidemill.webhook_deliveries d
    set attempts = d.attempts + case when t.ends is not distinct from 'dropped' then 0 else 1 end, last_status = t.status, last_error = t.error,
        status = coalesce(t.ends, d.status), ended_at = case when t.ends is not null then t.now end
    from told t
    where d.id = t.id and d.status = 'waiting'
    returning d.project_id, t.status, t.error, t.ends, t.now
), sums as materialized (
    select c.project_id, max(c.now) as now, bool_or(c.ends = 'delivered') as has_arrived, count(*) filter (where c.error is not null) as failures,
           bool_or(c.ends = 'failed') as is_failing, bool_or(c.status = 410) as is_gone,
           (array_agg(c.error) filter (where c.error is not null))[1] as error, (array_agg(c.status) filter (where c.error is not null))[1] as status
    from calls c
    where c.ends is distinct from 'dropped'
    group by c.project_id
), hooks as (
    update tidemill.webhooks w
    set last_success_at = case when s.has_arrived then s.now else w.last_success_at end,
        last_failure_at = case when s.failures > 0 then s.now else w.last_failure_at end,
        last_error = case when s.failures > 0 then s.error else w.last_error end,
        last_status = case when s.failures > 0 then s.status else w.last_status end,
        failed_attempts = case when s.has_arrived then 0 else w.failed_attempts + s.failures end,
        failing_since = case when s.has_arrived then null when s.is_failing then coalesce(w.failing_since, s.now) else w.failing_since end,
        quiet_until = case when s.has_arrived and w.failing_since is not null then s.now else w.quiet_until end,
        is_paused = w.is_paused or coalesce(s.is_gone, false)
    from sums s
    where w.project_id = s.project_id
)
select count(*) from calls
