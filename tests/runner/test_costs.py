"""Figures that do not depend on the machine: WAL, commits and held snapshots while a backlog is drained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.mill import Mill, opened
from harness.working import eventually, working
from tidemill import App
from tidemill.local import postgres
from tidemill.store.migrate import migrate

JOBS = 10_000
WAL_BYTES = 1_500
COMMITS = 0.02


@pytest.fixture
def alone(own_server: postgres.Server) -> Iterator[Mill]:
    """A server on which nothing else happens."""
    migrate(own_server.dsn)
    with opened(own_server.dsn) as mill:
        yield mill


def commits(mill: Mill) -> int:
    return int(one(mill, "select xact_commit from pg_stat_database where datname = current_database()"))


def one(mill: Mill, statement: str) -> Any:
    row = mill.conn.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def test_a_short_job_costs_little_wal_and_hardly_a_commit(alone: Mill) -> None:
    app = App()
    app.job("t")(lambda ctx, payload: None)
    for _ in range(JOBS // 1_000):
        alone.enqueue_all([{"payload": {"n": 1}}] * 1_000)
    alone.conn.execute("vacuum analyze tidemill.job_queue_entries")
    alone.conn.execute("checkpoint")  # the drain begins with pages that are written whole, as any does
    lsn, before, asked = one(alone, "select pg_current_wal_lsn()"), commits(alone), 0

    def left() -> bool:
        nonlocal asked
        asked += 1
        return bool(one(alone, "select exists (select from tidemill.job_queue_entries) or exists (select from tidemill.job_leases)"))

    with working(alone, app, concurrency=16):
        eventually(lambda: not left())
        wal = int(one(alone, f"select ('{one(alone, 'select pg_current_wal_lsn()')}'::pg_lsn - '{lsn}'::pg_lsn)::bigint"))
    alone.conn.execute("select pg_stat_force_next_flush()")
    made = commits(alone) - before - asked
    assert one(alone, "select count(*) from tidemill.job_executions where status = 'completed'") == JOBS
    print(f"per job: {wal / JOBS:.0f} bytes of WAL, {made / JOBS:.4f} commits")
    assert wal / JOBS <= WAL_BYTES
    assert made / JOBS <= COMMITS
