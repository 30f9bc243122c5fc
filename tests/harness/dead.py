"""Many jobs in one statement: dead, queued, pending. What a test of size starts from."""

from __future__ import annotations

from typing import Any

from harness.mill import Mill

DEAD = """
with given as materialized (
    select tidemill.uuid7(tidemill.uuid7_ticks(statement_timestamp() - interval '1 day') + i * 4096) as id, i,
           statement_timestamp() - interval '1 hour' as at, q.id as queue_id
    from generate_series(1, %(n)s::bigint) as i, tidemill.queues q where q.project_id = %(p)s::uuid and q.name = %(q)s::text
), born as (
    insert into tidemill.jobs (
        id, project_id, queue_id, job_type, payload, phase, run_at, created_at, updated_at, attempt_count, fence,
        error_class, error_message, final_reason, finalized_at, retention_until)
    select g.id, %(p)s::uuid, g.queue_id, 'mail.' || g.i %% 3, jsonb_build_object('n', g.i), 'dead_letter',
           g.at, g.at - interval '23 hours', g.at, 5, 5,
           'Boom' || g.i %% 4, 'it broke at ' || g.i, 'attempts_exhausted', g.at, g.at + interval '30 days'
    from given g
)
insert into tidemill.dead_letter_queue (
    id, job_id, project_id, queue_id, job_type, payload_snapshot, failure_reason, attempt_count, error_class, last_error, moved_at)
select g.id, g.id, %(p)s::uuid, g.queue_id, 'mail.' || g.i %% 3, jsonb_build_object('n', g.i), 'attempts_exhausted', 5,
       'Boom' || g.i %% 4, 'it broke', g.at
from given g
"""


def dead(mill: Mill, count: int, queue: str = "default") -> None:
    """So many jobs that died an hour ago, of three types and four classes of error."""
    mill.conn.execute(DEAD, {"n": count, "p": mill.project_id, "q": queue})


def phases(mill: Mill) -> dict[str, int]:
    """How many jobs are in which state."""
    rows: list[tuple[Any, ...]] = mill.conn.execute("select status::text, count(*) from tidemill.job_states group by 1").fetchall()
    return {row[0]: row[1] for row in rows}
