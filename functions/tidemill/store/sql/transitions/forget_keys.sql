-- Removes keys that answer with a job deleted in this transaction: an enqueue that held the job's unique key meanwhile may have
-- pointed its idempotency key there, unseen by the deletion's own snapshot. Parameters: job_ids uuid[].
-- Rows: none. Locks: unique_holds (by key).
delete from tidemill.unique_holds h
where (h.project_id, h.kind, h.key) in (
    select u.project_id, u.kind, u.key from tidemill.unique_holds u
    where u.job_id = any(%(job_ids)s::uuid[]) and not exists (select 1 from tidemill.jobs j where j.id = u.job_id)
    order by u.kind, u.key for update of u)
