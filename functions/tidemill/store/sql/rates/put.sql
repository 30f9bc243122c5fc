-- A rate class, new (with a full bucket) or in the place of the one of this name: what it has earned so far it earned at the old rate, and one that was
-- paused refills from zero. Parameters: project_id uuid; name text; per_window, window_ms, burst bigint; is_paused boolean or null (as it is; new: false);
--   now timestamptz or null. Rows: one: whether it is new. Locks: rate class; waits for a claim that spends from it.
insert into tidemill.rate_classes as r (project_id, name, "limit", window_ms, burst, tokens, refilled_at, is_paused)
values (%(project_id)s::uuid, %(name)s::text, %(per_window)s::bigint, %(window_ms)s::bigint, %(burst)s::bigint, %(burst)s::bigint,
        coalesce(%(now)s::timestamptz, clock_timestamp()), coalesce(%(is_paused)s::boolean, false))
on conflict (project_id, name) do update
set "limit" = excluded."limit", window_ms = excluded.window_ms, burst = excluded.burst,
    is_paused = coalesce(%(is_paused)s::boolean, r.is_paused),
    tokens = least(excluded.burst, case when r.is_paused then least(r.tokens, 0)
                                        when r.closed_until > excluded.refilled_at then r.tokens
                                        else tidemill.tokens_now(r, excluded.refilled_at) end),
    refilled_at = greatest(r.refilled_at, excluded.refilled_at)
returning r.xmax = 0 as is_new
