-- A job's state in a project. Parameters: project_id uuid; job_id uuid; now timestamptz or null (a test's clock: what is due by it is queued).
-- Rows: status, lease token if leased.
select case when %(now)s::timestamptz is null or s.status not in ('scheduled', 'queued') then s.status::text
            when s.run_at > %(now)s::timestamptz then 'scheduled' else 'queued' end,
       l.lease_token::text
from tidemill.job_states s
left join tidemill.job_leases l on l.job_id = s.id
where s.id = %(job_id)s::uuid and s.project_id = %(project_id)s::uuid
