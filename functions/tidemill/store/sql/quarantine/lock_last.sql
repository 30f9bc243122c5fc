-- Locks the row of a release that has come to its end against whoever would still set a job aside; those who do hold it until they commit.
-- Parameters: project_id uuid; fingerprint text (hex). Rows: one if nobody is at it. Locks: quarantine (update, skip locked).
select 1 from tidemill.quarantine x
where x.project_id = %(project_id)s::uuid and x.fingerprint = decode(%(fingerprint)s::text, 'hex') and x.verb = 'release'
for update skip locked
