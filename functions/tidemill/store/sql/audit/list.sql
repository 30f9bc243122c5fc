-- A project's audit log, newest first. Parameters: project_id uuid; before bigint or null (exclusive); actor_id uuid, actor_kind, action, target_kind,
--   target_id, request_id text, each or null (any); since, until timestamptz or null; scan integer: how many notes are looked at at most.
-- Rows: at most scan, each with whether it matches (else without before and after); a page goes on behind the last one that was looked at.
--   Walks an index that begins with the project. Locks: none.
select w.id, w.at, w.actor_kind, w.actor_id::text, coalesce(u.email, k.name) as actor, w.action, w.target_kind, w.target_id,
       case when m.matches then w.before end as before, case when m.matches then w.after end as after, w.request_id, m.matches
from (
    select a.* from tidemill.audit_log a
    where a.project_id = %(project_id)s::uuid and (%(before)s::bigint is null or a.id < %(before)s::bigint)
      and (%(target_kind)s::text is null or a.target_kind = %(target_kind)s::text)
      and (%(target_id)s::text is null or a.target_id = %(target_id)s::text)
      and (%(actor_id)s::uuid is null or a.actor_id = %(actor_id)s::uuid)
      and (%(action)s::text is null or a.action = %(action)s::text)
    order by a.id desc
    limit %(scan)s::integer) w
cross join lateral (
    select (%(actor_kind)s::text is null or w.actor_kind = %(actor_kind)s::text)
       and (%(request_id)s::text is null or w.request_id = %(request_id)s::text)
       and (%(since)s::timestamptz is null or w.at >= %(since)s::timestamptz)
       and (%(until)s::timestamptz is null or w.at < %(until)s::timestamptz) as matches) m
left join tidemill.users u on w.actor_kind = 'user' and u.id = w.actor_id
left join tidemill.api_keys k on w.actor_kind = 'api_key' and k.id = w.actor_id
order by w.id desc
