"""What a job costs in WAL and commits: figures of the design, the same on every machine.

A server of its own, because WAL is counted per server. It writes no full-page images (full_page_writes off): how many there are
depends on how often the server takes checkpoints, not on what we write.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from harness import crowd
from harness.crowd import PROJECT
from tidemill.domain.jobs import Ack, ClaimedJob, Registration
from tidemill.domain.transitions import Event
from tidemill.engine.enqueue import enqueue
from tidemill.local import postgres
from tidemill.runner.board import BATCH
from tidemill.runner.sources.postgres import PostgresSource
from tidemill.store.database import connect
from tidemill.store.migrate import migrate
from tidemill.store.postgres import PostgresStore

JOBS = 10_000
WAL_BYTES = {"drained": 1_000, "enqueued": 700}
COMMITS = 0.02
PATIENCE_SECS = 120


@pytest.fixture
def server(own_server: postgres.Server) -> postgres.Server:
    migrate(own_server.dsn)
    with psycopg.connect(own_server.dsn, autocommit=True) as conn:
        crowd.found(conn)
    return own_server


def test_a_drained_job_costs_little_wal_and_hardly_a_commit(server: postgres.Server) -> None:
    """Claimed and completed by the runner's own source from a backlog: claim, lease, ack and history row."""
    backlog(server.dsn, JOBS)
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute("checkpoint")
        commits = committed(conn)
        wal = wal_of(conn, lambda: drain(server.dsn))
        commits = committed(conn) - commits
    print(f"per drained job: {wal / JOBS:.0f} bytes of WAL, {commits / JOBS:.4f} commits")
    assert wal / JOBS <= WAL_BYTES["drained"]
    assert commits / JOBS <= COMMITS


def test_an_enqueued_job_costs_little_wal(server: postgres.Server) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute("checkpoint")
        wal = wal_of(conn, lambda: backlog(server.dsn, JOBS))
    print(f"per enqueued job: {wal / JOBS:.0f} bytes of WAL")
    assert wal / JOBS <= WAL_BYTES["enqueued"]


def backlog(dsn: str, jobs: int) -> None:
    with connect(dsn) as conn:
        store = PostgresStore(conn)
        for _ in range(0, jobs, 1_000):
            enqueue(store, PROJECT, [{"job_type": "noop", "payload": {"i": i}} for i in range(1_000)])


def drain(dsn: str) -> None:
    source = PostgresSource(dsn, PROJECT)
    source.register(Registration("w", ("default",), pid=os.getpid()))
    done = 0
    while jobs := source.claim(BATCH):
        results = source.settle([completed(job) for job in jobs])
        done += sum(result.status == "ok" for result in results)
    source.deregister()
    source.close()
    assert done == JOBS


def completed(job: ClaimedJob) -> Ack:
    return Ack(job.job_id, job.lease_token, Event.COMPLETE, 1)


def wal_of(conn: Connection[Any], work: Callable[[], None]) -> int:
    """Bytes of WAL that the server wrote while `work` ran, its own upkeep included."""
    before = scalar(conn, "select pg_current_wal_insert_lsn()")
    work()
    return int(scalar(conn, "select pg_current_wal_insert_lsn() - %s::pg_lsn", before))


def committed(conn: Connection[Any]) -> int:
    """Transactions so far, once the sessions that have ended are counted."""
    others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    deadline = time.monotonic() + PATIENCE_SECS
    while scalar(conn, others):
        assert time.monotonic() < deadline, "a session stays"
    conn.execute("select pg_stat_force_next_flush()")
    return int(scalar(conn, "select xact_commit from pg_stat_database where datname = current_database()"))


def scalar(conn: Connection[Any], query: str, *parameters: Any) -> Any:
    row = conn.execute(query, parameters).fetchone()
    assert row is not None
    return row[0]
