-- Counts lost leases and crashes by fingerprint. Parameters: job_ids uuid[], reasons text[] (lease_expired | crash), exit_codes integer[] of one length;
--   window_ms bigint: how long a loss counts; now timestamptz or null.
-- Rows: job_id, project_id, fingerprint (hex), is it quarantined, has it reached the threshold of the job's queue.
-- The caller holds the jobs' leases. Locks: quarantine, in the order of project and fingerprint.
with lost as materialized (
    select j.id, j.project_id, j.job_type, j.fingerprint, q.quarantine_after, g.reason, g.exit_code
    from unnest(%(job_ids)s::uuid[], %(reasons)s::text[], %(exit_codes)s::integer[]) as g (job_id, reason, exit_code)
    cross join lateral (
        select i.id, i.project_id, i.queue_id, i.job_type::text, tidemill.fingerprint(i.job_type, i.payload) as fingerprint
        from tidemill.jobs i where i.id = g.job_id limit 1) j
    join tidemill.queues q on q.id = j.queue_id
), tally as materialized (
    select l.project_id, l.fingerprint, min(l.job_type) as job_type, count(*)::integer as losses, max(l.reason) as reason,
           max(l.exit_code) as exit_code, coalesce(%(now)s::timestamptz, statement_timestamp()) as now
    from lost l group by l.project_id, l.fingerprint
), counted as (
    insert into tidemill.quarantine as x (
        project_id, fingerprint, job_type, losses, recent_losses, reason, last_exit_code, first_loss_at, last_loss_at)
    select t.project_id, t.fingerprint, t.job_type, t.losses, array_fill(t.now, array[t.losses]), t.reason, t.exit_code, t.now, t.now
    from tally t order by t.project_id, t.fingerprint
    on conflict (project_id, fingerprint) do update
    set losses = x.losses + excluded.losses,
        recent_losses = tidemill.losses_since(x.recent_losses || excluded.recent_losses, excluded.last_loss_at, %(window_ms)s::bigint),
        reason = excluded.reason, last_exit_code = coalesce(excluded.last_exit_code, x.last_exit_code), last_loss_at = excluded.last_loss_at
    returning x.project_id, x.fingerprint, x.recent_losses, x.is_quarantined
)
select l.id::text, l.project_id::text, encode(l.fingerprint, 'hex'), c.is_quarantined, cardinality(c.recent_losses) >= l.quarantine_after
from lost l join counted c on c.project_id = l.project_id and c.fingerprint = l.fingerprint
