-- The ceiling of enqueue: jobs and their entries from one jsonb array, nothing checked, nothing answered but the ids.
-- Parameters: jobs text (JSON array of {job_type, payload}), project_id uuid, queue_id uuid.
with given as materialized (
    select r.job_type, r.payload, (lpad(to_hex(floor(extract(epoch from statement_timestamp()) * 1000)::bigint), 12, '0') || '7'
        || lpad(to_hex(r.ord), 3, '0') || substr(s.salt::text, 20))::uuid as id
    from rows from (jsonb_to_recordset(%(jobs)s::jsonb) as (job_type text, payload jsonb)) with ordinality as r (job_type, payload, ord)
    cross join (select gen_random_uuid() as salt) s
), born as (
    insert into tidemill.jobs (id, project_id, queue_id, job_type, payload, phase, run_at, created_at, updated_at)
    select g.id, %(project_id)s::uuid, %(queue_id)s::uuid, g.job_type, g.payload, 'moving',
           statement_timestamp(), statement_timestamp(), statement_timestamp()
    from given g
)
insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id)
select %(queue_id)s::uuid, 0, statement_timestamp(), g.id from given g
returning job_id
