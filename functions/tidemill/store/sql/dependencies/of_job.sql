-- A job's parents and children (at most %(limit)s each). Parameters: project_id, job_id uuid; limit integer. Rows: side (parent | child), id, status, job_type (both null if it is gone).
(select 'parent' as side, d.depends_on_job_id::text as id, s.status::text as status, s.job_type::text as job_type
 from tidemill.job_dependencies d left join tidemill.job_states s on s.id = d.depends_on_job_id and s.project_id = %(project_id)s::uuid
 where d.job_id = %(job_id)s::uuid order by d.depends_on_job_id limit %(limit)s::integer)
union all
(select 'child', d.job_id::text, s.status::text, s.job_type::text
 from tidemill.job_dependencies d join tidemill.job_states s on s.id = d.job_id and s.project_id = %(project_id)s::uuid
 where d.depends_on_job_id = %(job_id)s::uuid order by d.job_id limit %(limit)s::integer)
