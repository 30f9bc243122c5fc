"""Real worker processes on a paused queue, and what they did once it was let go."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks import cpu
from benchmarks.clients import bodies
from benchmarks.rig import NAME, PROJECT, QUEUE, Base
from tidemill.engine.enqueue import enqueue
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

ROOT: Final = Path(__file__).resolve().parents[1]
WAIT_SECS: Final = 180.0
CONCURRENCY: Final = 16
QUIET_SECS: Final = 0.005
"""After an enqueue nobody asks for its result: a processor that is busy with asking would be measured as well."""
COMMAND = [sys.executable, "-m", "tidemill.cli", "worker", "benchmarks.jobs:app"]
COMMAND += ["--queues", NAME, "--concurrency", str(CONCURRENCY), "--source", "postgres"]
LOG: Final = os.environ.get("TIDEMILL_BENCH_LOG", os.devnull)


@contextmanager
def workers(base: Base, count: int) -> Iterator[list[int]]:
    """Process ids of `count` times `tidemill worker`, asleep on the paused queue."""
    base.pause(True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TIDEMILL_")}
    environment |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'functions'}", "TIDEMILL_DATABASE_URL": base.dsn}
    with Path(LOG).open("ab") as log:
        started = [
            subprocess.Popen(COMMAND, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) for _ in range(count)
        ]
    try:
        with base.connection() as conn:
            _until(lambda: _asleep(conn) >= count, started)
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def drain(base: Base, jobs: int, pids: Sequence[int] = (), make: Callable[[int], list[dict[str, Any]]] = bodies) -> tuple[float, float]:
    """Jobs per second from the first start to the last end of `jobs` no-op jobs, by the history of their attempts; and the
    processor time of the server and `pids` per job, in µs.

    The queue is filled while it is paused, by calls of what `make` returns for a number of jobs; the last one is enqueued after it has been
    let go, so that it wakes all workers at once.
    """
    base.pause(True)
    with connect(base.dsn) as conn, base.connection() as watch:
        store = PostgresStore(conn)
        _until(lambda: _scalar(watch, "select count(*) from tidemill.job_leases") == 0)
        for left in range(jobs - 1, 0, -1_000):
            enqueue(store, PROJECT, make(min(1_000, left)))
        since = _scalar(watch, "select clock_timestamp()")
        used = cpu.seconds([base.server_pid, *pids])
        base.pause(False)
        enqueue(store, PROJECT, make(1))
        # A count reads all that is done, and takes from who does it: only once nothing due is seen at the far end of the entries' index
        # (scheduled ones of others may stand there), and nothing is leased.
        watch.execute("set enable_sort = off")
        due = "select run_at <= now() from tidemill.job_queue_entries order by queue_id desc, lane desc, priority desc, run_at desc limit 1"
        leased = "select true from tidemill.job_leases order by lease_expires_at desc limit 1"
        done = "select count(*) from tidemill.job_executions where queue_id = %s and status = 'completed' and finished_at >= %s"
        _until(lambda: not (_scalar(watch, due) or _scalar(watch, leased)) and _scalar(watch, done, QUEUE, since) >= jobs, pause=0.1)
        used = cpu.seconds([base.server_pid, *pids]) - used
        secs = _scalar(
            watch,
            "select extract(epoch from max(finished_at) - min(started_at))::float from tidemill.job_executions"
            " where queue_id = %s and status = 'completed' and finished_at >= %s",
            QUEUE,
            since,
        )
    return float(jobs / secs), used / jobs * 1e6


def pick_ups_ms(base: Base, times: int) -> list[float]:
    """How long after its enqueue returned each of `times` jobs was begun, one after the other on an idle queue, in ms."""
    base.pause(False)
    took = []
    with connect(base.dsn) as conn, base.connection() as watch:
        store = PostgresStore(conn)
        for n in range(times):
            _until(lambda: _asleep(watch) >= 1)
            time.sleep(0.002 + 0.0013 * (n % 7))  # not in step with anything
            made = enqueue(store, PROJECT, [{"job_type": "bench.stamp", "queue": NAME}])[0]
            returned = time.time_ns()
            time.sleep(QUIET_SECS)
            took.append((_stamp_of(watch, made.job_id) - returned) / 1e6)
    base.pause(True)
    return took


def _stamp_of(watch: Any, job_id: str | None) -> int:
    """When the job was begun, in ns, as soon as it has said so."""
    read = "select (result ->> 'at')::bigint from tidemill.job_executions where job_id = %s"
    _until(lambda: _scalar(watch, read, job_id) is not None)
    return int(_scalar(watch, read, job_id))


def _asleep(conn: Any) -> int:
    return int(_scalar(conn, "select count(*) from tidemill.queue_sleepers where queue_id = %s", QUEUE))


def _scalar(conn: Any, query: str, *parameters: Any) -> Any:
    row = conn.execute(query, parameters).fetchone()
    return row[0] if row else None


def _until(condition: Callable[[], bool], alive: list[subprocess.Popen[bytes]] | None = None, pause: float = 0.001) -> None:
    deadline = time.monotonic() + WAIT_SECS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not reached within {WAIT_SECS:.0f} s")
        if any(process.poll() is not None for process in alive or ()):
            raise RuntimeError("a worker ended; set TIDEMILL_BENCH_LOG to a file to read what it said")
        time.sleep(pause)
