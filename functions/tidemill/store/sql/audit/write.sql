-- Note who did what to which thing. Parameters: project_id, org_id, actor_id uuid or null; actor_kind, action, target_kind, target_id text; before, after text
--   (JSON) or null; request_id text; only_after_writes boolean (true: nothing, if this transaction has written nothing). Rows: the note's id. Locks: none.
insert into tidemill.audit_log as a (project_id, org_id, actor_kind, actor_id, action, target_kind, target_id, before, after, request_id)
select %(project_id)s::uuid, %(org_id)s::uuid, %(actor_kind)s::text, %(actor_id)s::uuid, %(action)s::text, %(target_kind)s::text, %(target_id)s::text,
       %(before)s::jsonb, %(after)s::jsonb, %(request_id)s::text
where not %(only_after_writes)s::boolean or pg_current_xact_id_if_assigned() is not null
returning a.id
