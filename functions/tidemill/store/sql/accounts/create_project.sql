-- A new project with its queue `default`. Parameters: id, queue_id, org_id uuid; created_by uuid; name text. Rows: its id; none if the name is taken. Locks: none.
with made as (
    insert into tidemill.projects as p (id, org_id, name, created_by)
    values (%(id)s::uuid, %(org_id)s::uuid, %(name)s::text, %(created_by)s::uuid)
    on conflict (org_id, name) do nothing
    returning p.id
), queue as (
    insert into tidemill.queues (id, project_id, name) select %(queue_id)s::uuid, made.id, 'default' from made
)
select made.id::text from made
