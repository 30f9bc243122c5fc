-- Open edges whose parent has ended, for the sweep. Looks at the next %(limit)s open edges from where the last pass was, and begins anew
-- after the last one. Parameters: limit integer. Rows: parent, failed. Locks: the sweep's position.
with place as materialized (
    select coalesce((select p.after from tidemill.sweep_positions p where p.name = 'dependants'),
                    '00000000-0000-0000-0000-000000000000'::uuid) as after
), walked as materialized (
    select d.depends_on_job_id as parent
    from tidemill.job_dependencies d
    where d.settled_at is null and d.depends_on_job_id > (select p.after from place p)
    order by d.depends_on_job_id limit %(limit)s::integer
), next as (
    select p.after as was,
           case when (select count(*) from walked) < %(limit)s::integer then '00000000-0000-0000-0000-000000000000'::uuid
                else (select w.parent from walked w order by w.parent desc limit 1) end as after
    from place p
), noted as (
    insert into tidemill.sweep_positions (name, after)
    select 'dependants', n.after from next n where n.after <> n.was
    on conflict (name) do update set after = excluded.after
)
select distinct w.parent::text, s.status is distinct from 'completed' as failed
from walked w
left join tidemill.job_states s on s.id = w.parent
where s.id is null or s.status in ('completed', 'cancelled', 'dead_letter', 'quarantined')
