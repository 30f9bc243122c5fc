"""What is stored, read raw: all of a job, jobs that are in no place or in two, rows that belong to nothing."""

# Everything that is stored of a job, to compare before and after.
ALL_OF_A_JOB = """
select jsonb_build_object(
    'jobs', (select jsonb_agg(j) from tidemill.jobs j where j.id = %(id)s),
    'entries', (select jsonb_agg(e) from tidemill.job_queue_entries e where e.job_id = %(id)s),
    'leases', (select jsonb_agg(l) from tidemill.job_leases l where l.job_id = %(id)s),
    'executions', (select jsonb_agg(x order by x.fence) from tidemill.job_executions x where x.job_id = %(id)s),
    'holds', (select jsonb_agg(h order by h.kind, h.key) from tidemill.unique_holds h where h.job_id = %(id)s),
    'logs', (select jsonb_agg(g order by g.id) from tidemill.job_logs g where g.job_id = %(id)s),
    'dead', (select jsonb_agg(d) from tidemill.dead_letter_queue d where d.job_id = %(id)s))
"""
# A job must be in exactly one place: waiting, cancelled, dead or quarantined by its phase; else entry, lease or completed attempt.
MISPLACED = """
select j.id::text, j.phase::text,
       (select count(*) from tidemill.job_queue_entries e where e.job_id = j.id) as entries,
       (select count(*) from tidemill.job_queue_entries e where e.job_id = j.id
           and e.queue_id = j.queue_id and e.lane = j.lane and e.priority = j.priority and e.run_at = j.run_at) as findable,
       (select count(*) from tidemill.job_leases l where l.job_id = j.id) as leases,
       (select count(*) from tidemill.job_executions x where x.job_id = j.id and x.status = 'completed') as completions
from tidemill.jobs j
"""

# Rows that belong to nothing.
ORPHANS = (
    "select 'entry', o.job_id::text from tidemill.job_queue_entries o where not exists (select from tidemill.jobs j where j.id = o.job_id)",
    "select 'lease', o.job_id::text from tidemill.job_leases o where not exists (select from tidemill.jobs j where j.id = o.job_id)",
    "select 'attempt', o.job_id::text from tidemill.job_executions o where not exists (select from tidemill.jobs j where j.id = o.job_id)",
    "select 'key', o.job_id::text from tidemill.unique_holds o where not exists (select from tidemill.jobs j where j.id = o.job_id)",
    "select 'level', o.job_id::text from tidemill.job_queue_entries o"
    " where o.lane = 0 and not exists (select from tidemill.queue_levels l where l.queue_id = o.queue_id and l.priority = o.priority)",
    "select 'lane', o.job_id::text from tidemill.job_queue_entries o where o.lane <> 0"
    " and not exists (select from tidemill.queue_lanes l where l.queue_id = o.queue_id and l.lane = o.lane and l.priority = o.priority"
    " and l.due_at <= o.run_at)"
    " and not exists (select from tidemill.lane_news n"
    "   cross join lateral unnest(coalesce(n.job_ids, array[n.job_id]), coalesce(n.run_ats, array[n.run_at])) as u (job_id, run_at)"
    "   join tidemill.jobs j on j.id = u.job_id where n.queue_id = o.queue_id"
    "   and j.lane = o.lane and j.priority = o.priority and u.run_at <= o.run_at)"
    " and not exists (select from tidemill.lane_news n where n.queue_id = o.queue_id and n.lane = o.lane and n.priority = o.priority)",
)
