"""A project as it looks after a busy day: a million jobs finished, a hundred thousand waiting, a hundred thousand dead.

Without TIDEMILL_TEST_FULL_SIZE=1 there is a fifth of each: far beyond every bound of a count, so that plans are those of the whole.
`seed` has one statement per table and takes a while all the same, so share it: the fixture `million` (tests/conftest.py) is one such
database per test process. Read it, or write within a transaction that is rolled back.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

PROJECT = "01900000-0000-7000-8000-0000000000a1"
OTHER = "01900000-0000-7000-8000-0000000000a2"
QUEUES = 10
TYPES = 20
COPIED = ("jobs", "job_queue_entries", "job_executions", "dead_letter_queue")

# Built in one go at the end, which costs a third of keeping them up.
SECONDARY = """
select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) from pg_index i
where i.indrelid = any(select ('tidemill.' || t)::regclass from unnest(%s::text[]) as t) and not i.indisprimary
"""
FOUND = """
with o as (insert into tidemill.organizations (id, name, slug) values (%(project)s, 'o', 'million'))
insert into tidemill.projects (id, org_id, name)
select p, %(project)s, 'p' || n from unnest(array[%(project)s, %(other)s]::uuid[]) with ordinality as u (p, n)
"""
QUEUES_OF = """
insert into tidemill.queues (id, project_id, name)
select ('01900000-0000-7000-8000-' || lpad(to_hex(4096 + i), 12, '0'))::uuid, %(project)s, 'queue-' || i
from generate_series(0, %(queues)s - 1) as i
"""
LEVELS = "insert into tidemill.queue_levels (queue_id, priority) select q.id, 0 from tidemill.queues q"
# i counts up with time: finished from three hours to one hour ago, dead within the hour after, waiting for the last few minutes.
GIVEN = """
with given as materialized (
    select i, %(kind)s::text as kind, n.now - %(ago)s::interval + i * %(step)s::interval as at,
           ('01900000-0000-7000-8000-' || lpad(to_hex(4096 + i %% %(queues)s), 12, '0'))::uuid as queue_id,
           'type-' || i %% %(types)s as job_type
    from generate_series(0, %(rows)s - 1) as i cross join (select statement_timestamp() as now) n
)"""
JOBS = (
    GIVEN
    + """
insert into tidemill.jobs (
    id, project_id, queue_id, job_type, payload, phase, run_at, attempt_count, error_class, error_message, final_reason, finalized_at,
    retention_until, created_at, updated_at, principal_id, tags)
select tidemill.uuid7(tidemill.uuid7_ticks(g.at), %(project)s), %(project)s, g.queue_id, g.job_type,
       '{"text": "a payload of the usual size, more or less, not more"}',
       case g.kind when 'dead' then 'dead_letter' else 'moving' end::tidemill.job_phase, g.at, case g.kind when 'dead' then 5 else 0 end,
       case g.kind when 'dead' then 'Boom' || g.i %% 50 end, case g.kind when 'dead' then 'it broke at step ' || g.i end,
       case g.kind when 'dead' then 'failed' end, case g.kind when 'dead' then g.at + interval '2 seconds' end,
       case g.kind when 'dead' then g.at + interval '30 days' end, g.at, g.at, 'user-' || g.i %% 1000,
       case when g.i %% 10 = 0 then array['tagged'] end
from given g"""
)
ENTRIES = """
insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id)
select j.queue_id, j.priority, j.run_at, j.id from tidemill.jobs j
where j.id > (select f.id from tidemill.jobs f where f.phase = 'dead_letter' order by f.id desc limit 1)
"""
EXECUTIONS = """
insert into tidemill.job_executions (
    job_id, fence, id, queue_id, attempt_number, status, queued_at, started_at, finished_at, duration_ms, created_at)
select j.id, 1, j.id, j.queue_id, 1, 'completed', j.run_at, j.run_at + interval '300 ms', j.run_at + interval '800 ms', 500,
       j.run_at + interval '800 ms'
from tidemill.jobs j where j.project_id = %(project)s and j.phase = 'moving'
"""
DEATHS = """
insert into tidemill.dead_letter_queue (
    id, job_id, project_id, queue_id, job_type, payload_snapshot, failure_reason, attempt_count, error_class, last_error, moved_at)
select j.id, j.id, j.project_id, j.queue_id, j.job_type, j.payload, 'failed', j.attempt_count, j.error_class, j.error_message,
       j.finalized_at
from tidemill.jobs j where j.project_id = %(project)s and j.phase = 'dead_letter'
"""


@dataclass(frozen=True)
class Million:
    """Where it is, and what is in it. The project `other` is empty."""

    dsn: str
    finished: int
    queued: int
    dead: int
    project_id: str = PROJECT
    other_id: str = OTHER


SHARE = 1 if os.environ.get("TIDEMILL_TEST_FULL_SIZE") else 5


def seed(conn: Connection[Any], *, finished: int, queued: int, dead: int) -> None:
    """Fills an empty database and brings its statistics up to date."""
    about: dict[str, Any] = {"project": PROJECT, "other": OTHER, "queues": QUEUES, "types": TYPES}

    def jobs(kind: str, rows: int, ago: str, span_s: float) -> None:
        step = f"{span_s / max(1, rows) * 1_000_000:.3f} microseconds"
        conn.execute(JOBS, {**about, "kind": kind, "rows": rows, "ago": ago, "step": step})

    conn.execute("set jit = off")
    for table in COPIED:
        conn.execute(f"alter table tidemill.{table} set (autovacuum_enabled = false)".encode())
    indexes = conn.execute(SECONDARY, [list(COPIED)]).fetchall()
    for name, _ in indexes:
        conn.execute(f"drop index {name}".encode())
    for statement in (FOUND, QUEUES_OF, LEVELS):
        conn.execute(statement, about)
    jobs("finished", finished, "3 hours", 7_200)
    conn.execute(EXECUTIONS, about)
    jobs("dead", dead, "59 minutes", 3_000)
    conn.execute(DEATHS, about)
    jobs("queued", queued, "200 seconds", 100)
    conn.execute(ENTRIES, about)
    for _, definition in indexes:
        conn.execute(definition.encode())
    conn.execute("vacuum analyze")
