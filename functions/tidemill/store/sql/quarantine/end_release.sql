-- Ends a release if no job is left under it (a statement of its own, so that it sees what was committed before the lock). Losses counted since
--   the release stay. Parameters: project_id uuid; fingerprint text (hex). Rows: one if it has ended. Locks: quarantine (the caller holds it).
with done as materialized (
    select x.project_id, x.fingerprint, x.recent_losses from tidemill.quarantine x
    where x.project_id = %(project_id)s::uuid and x.fingerprint = decode(%(fingerprint)s::text, 'hex') and x.verb = 'release'
      and not exists (
          select 1 from tidemill.jobs j
          where j.project_id = x.project_id and j.fingerprint = x.fingerprint and j.phase = 'quarantined')
), gone as (
    delete from tidemill.quarantine x using done d
    where x.project_id = d.project_id and x.fingerprint = d.fingerprint and d.recent_losses = '{}'
), kept as (
    update tidemill.quarantine x
    set verb = null, position = null, quarantined_at = null, losses = cardinality(d.recent_losses), first_loss_at = d.recent_losses[1]
    from done d
    where x.project_id = d.project_id and x.fingerprint = d.fingerprint and d.recent_losses <> '{}'
)
select 1 from done
