-- Quarantined fingerprints and those under release, the newest first, or one of them. Parameters: project_id uuid; fingerprint text (hex) or null (all);
--   before timestamptz and before_fingerprint text (hex), or null (exclusive); counted integer: jobs are counted up to this many; limit integer.
-- Rows: at most limit; jobs: how many of the first `counted` jobs that bear it are set aside, is_more: there are more of them to look at. Locks: none.
select encode(x.fingerprint, 'hex') as fingerprint, x.job_type::text, x.reason, x.losses, x.last_exit_code, x.first_loss_at, x.last_loss_at,
       x.quarantined_at, x.is_quarantined, x.verb, x.swept_at, c.jobs, c.looked >= %(counted)s::integer as is_more, c.sample
from tidemill.quarantine x
cross join lateral (
    select count(*) as looked, count(*) filter (where o.phase = 'quarantined') as jobs,
           (array_agg(o.id::text order by o.id) filter (where o.phase = 'quarantined'))[1:10] as sample
    from (select j.id, j.phase from tidemill.jobs j
          where j.project_id = x.project_id and j.fingerprint = x.fingerprint order by j.id limit %(counted)s::integer) o) c
where x.project_id = %(project_id)s::uuid and x.quarantined_at is not null
  and (%(fingerprint)s::text is null or x.fingerprint = decode(%(fingerprint)s::text, 'hex'))
  and (%(before)s::timestamptz is null
       or (x.quarantined_at, x.fingerprint) < (%(before)s::timestamptz, decode(%(before_fingerprint)s::text, 'hex')))
order by x.quarantined_at desc, x.fingerprint desc
limit %(limit)s::integer
