"""Bulk operations over 200,000 dead jobs: the plan, its application by one scheduler, the longest batch; beside the bare writes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from psycopg import Connection

from benchmarks.cpu import per_job_us, seconds
from benchmarks.measure import Size
from benchmarks.results import Row
from benchmarks.rig import PROJECT, QUEUE, make_base, statement
from tidemill.engine import operations
from tidemill.engine.bulk import Bulk
from tidemill.local import postgres
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

DEAD: Final = 200_000
FILTER: Final = {"state": ["dead_letter"]}
ACTIONS: Final = ("retry", "discard", "delete")
BATCH: Final = 2_000


def operations_rows(running: postgres.Server, size: Size, say: Callable[[str], None]) -> list[Row]:
    """Retry, discard with its undo, and delete, each of all dead jobs."""
    count = DEAD if size.jobs >= 20_000 else DEAD // 10
    rows: list[Row] = []
    bare = _bare(running, min(count, 50_000))
    for action in ACTIONS:
        base = make_base(running, f"bench_{action}")
        with connect(base.dsn) as conn:
            conn.execute(statement("fill_dead"), {"rows": count, "project_id": PROJECT, "queue_id": QUEUE})
            conn.execute("vacuum analyze")
            conn.execute("checkpoint")
            store = PostgresStore(conn)
            rows += _measured(store, base.server_pid, action, count, bare[action])
            if action == "discard":
                rows += _undone(store, base.server_pid, count)
        say(f"{action} of {count:,} dead jobs")
    return rows


def _measured(store: PostgresStore, server_pid: int, action: str, count: int, bare_us: float) -> list[Row]:
    began = time.perf_counter()
    plan = operations.plan(store, PROJECT, str(uuid.uuid4()), action, FILTER)
    planned_ms = (time.perf_counter() - began) * 1_000
    assert plan.estimate == count, "the plan counts all"
    operations.apply(store, PROJECT, plan.id)
    rate, longest_ms, used = _run(store, server_pid, count)
    done = operations.seen(store, PROJECT, plan.id)
    assert (done.status, done.affected) == ("completed", count), "each once"
    what = f"{action}, {count:,} dead jobs"
    return [
        Row("operations", f"{what}: dry run", "ms", [planned_ms]),
        Row("operations", f"{what}: apply", ours=[rate]),
        Row("operations", f"{what}: processor time a job, scheduler and database", "µs", [used], [bare_us]),
        Row("operations", f"{what}: longest batch", "ms", [longest_ms]),
    ]


def _bare(running: postgres.Server, count: int) -> dict[str, float]:
    """Processor time per job, in µs, of each action's writes alone: nothing is walked, guarded or told."""
    base, used = make_base(running, "bench_bare"), dict[str, float]()
    with connect(base.dsn) as conn:
        conn.execute(statement("fill_dead"), {"rows": count, "project_id": PROJECT, "queue_id": QUEUE})
        ids = [row[0] for row in conn.execute("select id::text from tidemill.jobs order by id")]
        for action in ACTIONS:
            conn.execute("vacuum analyze")
            conn.execute("checkpoint")
            with conn.transaction(force_rollback=True):
                _, used[action] = per_job_us([base.server_pid], count, lambda name=action: _write(conn, name, ids))
    return used


def _write(conn: Connection[Any], action: str, ids: Sequence[str]) -> float:
    for at in range(0, len(ids), BATCH):
        conn.execute(statement(f"bare_{action}"), {"ids": list(ids[at : at + BATCH])})
    return 0.0


def _undone(store: PostgresStore, server_pid: int, count: int) -> list[Row]:
    (found,) = store.operations(PROJECT, before=None, limit=1)
    operations.undo(store, PROJECT, found.id)
    rate, longest_ms, used = _run(store, server_pid, count)
    assert operations.seen(store, PROJECT, found.id).undone == count, "each is put back"
    what = f"discard, {count:,} dead jobs: undo"
    return [
        Row("operations", what, ours=[rate], note=f"CPU {used:.0f} µs a job"),
        Row("operations", f"{what}, longest batch", "ms", [longest_ms]),
    ]


def _run(store: PostgresStore, server_pid: int, count: int) -> tuple[float, float, float]:
    """Jobs per second, the longest batch in ms, the server's and our processor time per job in µs."""
    phase, longest, before, own = Bulk(store, clock=time.monotonic), 0.0, seconds([server_pid]), time.process_time()
    began = time.perf_counter()
    step: Mapping[str, Any] = {"more": 1}
    while step["more"]:
        start = time.perf_counter()
        step = phase.step()
        longest = max(longest, time.perf_counter() - start)
    took = time.perf_counter() - began
    used = seconds([server_pid]) - before + time.process_time() - own
    return count / took, longest * 1_000, used / count * 1e6
