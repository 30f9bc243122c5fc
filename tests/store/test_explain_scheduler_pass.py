"""A scheduler pass over a million due or expired rows is bounded by its batch, not by the rows (SHARE of them: harness.million)."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator

import psycopg
import pytest

from harness import crowd
from harness.databases import Databases
from harness.million import SHARE
from tidemill.engine.tick import BATCH, tick
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

MILLION = 1_000_000 // SHARE
HEAD = 2 * BATCH
"""Only the oldest rows have their job; a pass that looked at others would not find theirs, and would have read them."""
ROWS = 16 * BATCH
"""Read and written by one pass over 500 expired leases, their entries, jobs and history; the little table of jobs may be read whole."""
GROWTH_KB = 10_000


@pytest.fixture(scope="module")
def late(databases: Databases) -> Iterator[str]:
    """A million expired leases and a million due entries, with statistics of the empty tables: the worst there are."""
    dsn = databases.clone()
    with psycopg.connect(dsn, autocommit=True) as conn:
        crowd.keep_statistics(conn)
        crowd.found(conn)
        conn.execute("vacuum analyze")
        crowd.fill(conn, crowd.LEASES, MILLION, "-1 day", step="50 ms", jobs=HEAD)
        crowd.fill(conn, crowd.ENTRIES, MILLION, "-80 seconds", step="50 us", jobs=0)
        # the samples of these minutes are there: counting is theirs, and bounded by itself (tests/engine/test_samples.py)
        conn.execute(
            "insert into tidemill.queue_samples (queue_id, at)"
            " select q.id, date_trunc('minute', now()) + i * interval '1 minute' from tidemill.queues q, generate_series(0, 10) i"
        )
    yield dsn
    databases.drop(dsn)


def test_pass_over_a_million_late_rows_touches_one_batch(late: str) -> None:
    with connect(late) as conn, conn.transaction(force_rollback=True):
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # the budget is gone at once, so that each phase makes one step
        phases = {phase.name: phase for phase in tick(PostgresStore(conn), roll=random.random, clock=_Running(), budget_ms=0)}
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown
        seen = crowd.touched(conn)
    assert [name for name, phase in phases.items() if phase.error] == []
    assert phases["reap"].counts["expired"] == BATCH
    assert phases["reap"].backlog
    assert seen.seq_rows + seen.index_rows + seen.written <= ROWS
    assert grown <= GROWTH_KB


@pytest.mark.parametrize(("name", "blocks"), [("leases/expired", 15 * BATCH), ("scheduler/ring", 3 * BATCH)])
def test_sweep_of_a_million_rows_reads_few_blocks(late: str, name: str, blocks: int) -> None:
    with connect(late) as conn, conn.transaction(force_rollback=True):
        plan = crowd.explain(conn, name, {"limit": BATCH, "since": None, "now": None})
    assert plan.scans == []
    assert plan.blocks <= blocks
    assert plan.most_rows <= 2 * BATCH


class _Running:
    """A clock that moves on with every look at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now
