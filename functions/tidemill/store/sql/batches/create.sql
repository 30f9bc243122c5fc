-- A new open batch. Parameters: batch_id, project_id uuid; name text; callbacks text (JSON object of job objects); now timestamptz or null. Rows: id.
insert into tidemill.job_batches (id, project_id, name, callbacks, created_at, updated_at)
values (%(batch_id)s::uuid, %(project_id)s::uuid, %(name)s, %(callbacks)s::jsonb,
        coalesce(%(now)s::timestamptz, statement_timestamp()), coalesce(%(now)s::timestamptz, statement_timestamp()))
returning id::text
