-- Leases of a queue that were claimed while it had no gate count from now on. Parameters: project_id uuid; queue text (name).
-- Rows: one: how many. Locks: leases; the caller holds claims off (hold_claims.sql). Reads all leases, once per limit.
with counted as (
    update tidemill.job_leases l
    set traits = l.traits | 128
    from tidemill.queues q
    where q.project_id = %(project_id)s::uuid and q.name = %(queue)s::text and l.queue_id = q.id and l.traits & 128 = 0
    returning 1
)
select count(*) from counted
