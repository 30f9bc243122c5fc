-- Settle: ends attempts in every way but completion, as domain.transitions.decide() chose. One statement, guarded by the lease token.
-- Parameters: job_ids uuid[]: the moves' jobs; moves jsonb: [{job_id, token, to, status, attempt_count, crash_count, delay_ms, reason, error_class, error_message,
--   error_stack, exit_code, digest, fingerprint (hex)}], sorted by job_id; keep integer: history rows kept per job; now timestamptz or null.
-- Rows: job_id, to, traits of every lease that was ours. Locks: leases -> entries (insert) -> jobs -> executions -> unique_holds -> dead_letter_queue.
with moves as materialized (
    select m.*
    from jsonb_to_recordset(%(moves)s::jsonb) as m (
        job_id uuid, token uuid, "to" text, status tidemill.execution_status, attempt_count integer, crash_count integer, delay_ms bigint,
        reason text, error_class text, error_message text, error_stack text, exit_code integer, digest bigint, fingerprint text)
), ended as (
    delete from tidemill.job_leases l
    using moves m
    where l.job_id = m.job_id and l.lease_token = m.token and l.job_id = any(%(job_ids)s::uuid[])
    returning l.job_id, l.fence, l.lease_token, l.queue_id, l.worker_id, l.attempt, l.priority, l.traits, l.run_at, l.claimed_at, l.started_at, l.limit_key, l.type_key,
              l.weight, l.lane,
              m."to", m.status, m.attempt_count, m.crash_count, m.reason, m.error_class, m.error_message, m.error_stack, m.exit_code, m.digest, m.fingerprint,
              coalesce(%(now)s::timestamptz, statement_timestamp()) as now,
              coalesce(%(now)s::timestamptz, statement_timestamp()) + make_interval(secs => m.delay_ms / 1000.0) as due_at
), news as (
    insert into tidemill.lane_news (queue_id, job_id, run_at) select e.queue_id, e.job_id, e.due_at from ended e where e.lane <> 0 and e."to" in ('scheduled', 'queued')
), entered as (
    insert into tidemill.job_queue_entries (
        queue_id, priority, run_at, job_id, attempt_count, fence, traits, weight, lane)
    select e.queue_id, e.priority, e.due_at, e.job_id, e.attempt_count, e.fence, e.traits, e.weight, e.lane
    from ended e where e."to" in ('scheduled', 'queued')
), moved as (
    update tidemill.jobs j
    set phase = case e."to" when 'cancelled' then 'cancelled' when 'dead_letter' then 'dead_letter' when 'quarantined' then 'quarantined'
                            else 'moving' end::tidemill.job_phase,
        run_at = case when e."to" in ('scheduled', 'queued') then e.due_at else j.run_at end,
        attempt_count = e.attempt_count,
        fence = e.fence,
        crash_count = e.crash_count,
        fingerprint = coalesce(decode(e.fingerprint, 'hex'), j.fingerprint),
        error_class = coalesce(e.error_class, j.error_class),
        error_message = coalesce(e.error_message, j.error_message),
        final_reason = case when e."to" in ('scheduled', 'queued') then null else e.reason end,
        finalized_at = case when e."to" in ('cancelled', 'dead_letter') then e.now end,
        retention_until = case when e."to" in ('cancelled', 'dead_letter') then greatest(
            e.now + make_interval(secs => coalesce(j.retention_ms,
                case e."to" when 'cancelled' then q.retention_cancelled_ms else q.retention_dead_letter_ms end) / 1000.0), j.unique_until) end,
        updated_at = e.now
    from ended e
    join tidemill.queues q on q.id = e.queue_id
    where j.id = e.job_id and j.id = any(%(job_ids)s::uuid[])
    returning j.id, j.project_id, j.queue_id, j.job_type, j.payload, j.attempt_count, j.error_class, j.error_message, j.phase, e.reason, e.now
), history as (
    insert into tidemill.job_executions (
        job_id, fence, id, queue_id, worker_id, attempt_number, status, exit_code, ack_digest, queued_at, started_at, finished_at,
        duration_ms, error_class, error_message, error_stack)
    select e.job_id, e.fence, e.lease_token, e.queue_id, e.worker_id, e.attempt, e.status, e.exit_code, e.digest, e.run_at,
           coalesce(e.started_at, e.claimed_at), e.now,
           greatest(0, extract(epoch from e.now - coalesce(e.started_at, e.claimed_at)) * 1000)::bigint,
           e.error_class, e.error_message, e.error_stack
    from ended e
), trimmed as (
    delete from tidemill.job_executions x
    using ended e
    where x.job_id = e.job_id and x.job_id = any(%(job_ids)s::uuid[]) and x.fence <= e.fence - %(keep)s::integer
), freed as (
    delete from tidemill.unique_holds h
    where h.kind = 'unique' and h.job_id = any(array(
        select u.job_id from tidemill.unique_holds u
        where u.kind = 'unique' and u.job_id = any(array(
            select e.job_id from ended e where e."to" not in ('scheduled', 'queued') and e.traits & 3 <> 0))
        order by u.key for update))
), buried as (
    insert into tidemill.dead_letter_queue (
        id, job_id, project_id, queue_id, job_type, payload_snapshot, failure_reason, attempt_count, error_class, last_error, moved_at)
    select tidemill.uuid7(tidemill.uuid7_ticks(m.now)), m.id, m.project_id, m.queue_id, m.job_type, m.payload, coalesce(m.reason, 'failed'),
           m.attempt_count, m.error_class, m.error_message, m.now
    from moved m where m.phase = 'dead_letter'
)
select e.job_id::text, e."to", e.traits from ended e
where coalesce((
    select case when count(*) > 0 then tidemill.free_places(array_agg(w.queue_id) || array_agg(w.queue_id), array_agg(w.limit_key) || array_agg(w.type_key),
        %(now)s::timestamptz) end
    from ended w where w.limit_key is not null or w.type_key is not null), 0) >= 0
