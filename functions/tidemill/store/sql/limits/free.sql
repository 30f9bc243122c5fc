-- Lanes that wait for a job type's standing limit are worth another look. Parameters: project_id uuid; job_type text. Rows: one: news written. Locks: none.
select tidemill.free_places(array[null::uuid], array[tidemill.type_key(%(project_id)s::uuid, %(job_type)s::text)])
