-- What happened to an organization, its members and its projects, newest first. Parameters: org_id uuid; before bigint or null (exclusive); actor_id uuid,
--   actor_kind, action, target_kind, target_id, request_id text, each or null (any); since, until timestamptz or null; scan integer: how many notes
--   are looked at at most. Rows: at most scan, each with whether it matches (else without before and after). Walks the organization's index. Locks: none.
select w.id, w.at, w.actor_kind, w.actor_id::text, u.email as actor, w.action, w.target_kind, w.target_id,
       case when m.matches then w.before end as before, case when m.matches then w.after end as after, w.request_id, m.matches
from (
    select a.* from tidemill.audit_log a
    where a.org_id = %(org_id)s::uuid and (%(before)s::bigint is null or a.id < %(before)s::bigint)
    order by a.id desc
    limit %(scan)s::integer) w
cross join lateral (
    select (%(target_kind)s::text is null or w.target_kind = %(target_kind)s::text)
       and (%(target_id)s::text is null or w.target_id = %(target_id)s::text)
       and (%(actor_id)s::uuid is null or w.actor_id = %(actor_id)s::uuid)
       and (%(action)s::text is null or w.action = %(action)s::text)
       and (%(actor_kind)s::text is null or w.actor_kind = %(actor_kind)s::text)
       and (%(request_id)s::text is null or w.request_id = %(request_id)s::text)
       and (%(since)s::timestamptz is null or w.at >= %(since)s::timestamptz)
       and (%(until)s::timestamptz is null or w.at < %(until)s::timestamptz) as matches) m
left join tidemill.users u on w.actor_kind = 'user' and u.id = w.actor_id
order by w.id desc
