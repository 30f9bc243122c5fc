"""The server, the databases and the rows that the measurements need."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import psycopg

from tidemill.local import postgres
from tidemill.store.migrate import migrate

PROJECT: Final = "01900000-0000-7000-8000-000000000002"
QUEUE: Final = "01900000-0000-7000-8000-000000000003"
WORKER: Final = "01900000-0000-7000-8000-000000000004"
NAME: Final = "bench"
SETTINGS: Final = {"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min", "max_connections": "100"}
"""Room, so that no checkpoint falls into a run. fsync, full_page_writes and synchronous_commit stay on, as in production."""
FILL_STEP: Final = 100_000


@cache
def statement(name: str) -> bytes:
    """A statement of `benchmarks/sql`, without its comment lines."""
    lines = (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).encode()


@dataclass(frozen=True)
class Base:
    """A migrated database with one project and one queue; `others` rows of other states stand beside the measured ones."""

    name: str
    dsn: str
    server_pid: int
    others: int = 0

    @contextmanager
    def connection(self, **named: Any) -> Iterator[psycopg.Connection[Any]]:
        """An autocommit connection with prepared statements, as the bare loops use it."""
        with psycopg.connect(self.dsn, autocommit=True, **{"prepare_threshold": 0, **named}) as conn:
            yield conn

    def pause(self, paused: bool) -> None:
        """Workers claim nothing from the queue while it is paused."""
        with self.connection() as conn:
            conn.execute("update tidemill.queues set is_paused = %s where id = %s", [paused, QUEUE])


@contextmanager
def server(commit_delay_us: int, data_dir: Path | None) -> Iterator[postgres.Server]:
    """An embedded server of our own with production's durability. commit_delay_us holds each commit for that long."""
    held = {"commit_delay": str(commit_delay_us), "commit_siblings": "0"} if commit_delay_us else {}
    with postgres.start(data_dir, settings={**SETTINGS, **held}) as running:
        yield running


def make_base(running: postgres.Server, name: str, others: int = 0) -> Base:
    """A new database; with `others`, so many scheduled and so many finished jobs, analysed."""
    with psycopg.connect(running.dsn, autocommit=True) as conn:
        conn.execute(f"drop database if exists {name} with (force)")
        conn.execute(f"create database {name}")
    assert running.pid is not None
    base = Base(name, running.dsn_of(name), running.pid, others)
    migrate(base.dsn)
    with base.connection(prepare_threshold=None) as conn:
        conn.execute("insert into tidemill.organizations (id, name, slug) values (%s, 'bench', 'bench')", [PROJECT])
        conn.execute("insert into tidemill.projects (id, org_id, name) values (%s, %s, 'bench')", [PROJECT, PROJECT])
        conn.execute("insert into tidemill.queues (id, project_id, name) values (%s, %s, %s)", [QUEUE, PROJECT, NAME])
        conn.execute("insert into tidemill.queue_levels (queue_id, priority) values (%s, 0)", [QUEUE])
        for _ in range(others // FILL_STEP):
            for fill in ("fill_scheduled", "fill_finished"):
                conn.execute(statement(fill), {"rows": FILL_STEP, "project_id": PROJECT, "queue_id": QUEUE})
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")
    return base


def commit_ms(base: Base, times: int = 300) -> float:
    """Median time of a transaction that writes one row, in ms: what nothing durable can undercut."""
    took = []
    with base.connection() as conn:
        conn.execute("create table if not exists public.bench_commits (n bigint)")
        for n in range(times):
            began = time.perf_counter()
            conn.execute("insert into public.bench_commits values (%s)", [n])
            took.append(time.perf_counter() - began)
        conn.execute("drop table public.bench_commits")
    return statistics.median(took) * 1_000
