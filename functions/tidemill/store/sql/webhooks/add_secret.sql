-- A new secret; the one in force signs on beside it for `overlap_secs`, older ones end. Parameters: id uuid; project_id uuid; secret bytea;
-- overlap_secs integer. Rows: one: created_at. Locks: webhook_secrets.
with ended as (
    update tidemill.webhook_secrets s
    set ends_at = case when s.ends_at is null then clock_timestamp() + make_interval(secs => %(overlap_secs)s::integer) else clock_timestamp() end
    where s.project_id = %(project_id)s::uuid and (s.ends_at is null or s.ends_at > clock_timestamp())
)
insert into tidemill.webhook_secrets as n (id, project_id, secret) values (%(id)s::uuid, %(project_id)s::uuid, %(secret)s::bytea)
returning n.created_at
