"""Client processes that run a loop all at once, so that one interpreter's lock does not measure itself."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg

from benchmarks.rig import NAME, PROJECT, QUEUE, WORKER, statement
from tidemill.client.transaction import enqueue_in_transaction
from tidemill.engine.enqueue import enqueue
from tidemill.runner.sources.link import PLANS
from tidemill.store.database import CONNECT
from tidemill.store.postgres import PostgresStore

Loop = Callable[[Any, dict[str, Any]], tuple[int, float, float]]
LAG: Final = timedelta(milliseconds=200)
ANSWER_SECS: Final = 300


class Clients:
    """`count` processes, each with a connection to every database it is asked about."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._barrier = context.Barrier(count)
        self._pipes = []
        self._processes = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._barrier), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, loop: str, count: int, **options: Any) -> float:
        """Jobs per second over `count` of the clients, from the first one's start to the last one's end."""
        for place, pipe in enumerate(self._pipes):
            pipe.send((loop if place < count else "", options))
        done: list[tuple[int, float, float]] = []
        for pipe in self._pipes:
            answer = pipe.recv() if pipe.poll(ANSWER_SECS) else "a client does not answer"
            if isinstance(answer, str):
                raise RuntimeError(answer)
            if answer[0]:
                done.append(answer)
        return sum(n for n, _, _ in done) / (max(end for _, _, end in done) - min(begin for _, begin, _ in done)) if done else 0.0

    @property
    def pids(self) -> list[int]:
        """Their process ids."""
        return [process.pid for process in self._processes if process.pid is not None]

    def close(self) -> None:
        """Ends the processes."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(10)


@contextmanager
def clients(count: int) -> Iterator[Clients]:
    """Clients that are gone afterwards."""
    made = Clients(count)
    try:
        yield made
    finally:
        made.close()


def bodies(per_call: int) -> list[dict[str, Any]]:
    """Job objects as a caller would give them."""
    return [{"job_type": "bench.noop", "queue": NAME, "payload": {"i": i}} for i in range(per_call)]


def _for(secs: float, per_call: int, call: Callable[[], object]) -> tuple[int, float, float]:
    begin, calls = time.time(), 0
    while (now := time.time()) - begin < secs or calls == 0:
        call()
        calls += 1
    return calls * per_call, begin, now


def _insert_params(per_call: int) -> dict[str, Any]:
    jobs = json.dumps([{"job_type": "bench.noop", "payload": {"i": i}} for i in range(per_call)])
    return {"jobs": jobs, "project_id": PROJECT, "queue_id": QUEUE}


def _insert(conns: Any, options: dict[str, Any]) -> tuple[int, float, float]:
    """The ceiling: one statement per call, prepared."""
    conn, per_call = conns(options["dsn"], prepared=True), options["per_call"]
    params = _insert_params(per_call)
    return _for(options["secs"], per_call, lambda: conn.execute(statement("insert"), params).fetchall())


def _insert_in_transaction(conns: Any, options: dict[str, Any]) -> tuple[int, float, float]:
    """The ceiling of `_in_transaction`: the same statement as `_insert` in a transaction of the application."""
    conn, per_call = conns(options["dsn"], prepared=True), options["per_call"]
    params = _insert_params(per_call)

    def call() -> None:
        with conn.transaction():
            conn.execute(statement("insert"), params).fetchall()

    return _for(options["secs"], per_call, call)


def _enqueue(conns: Any, options: dict[str, Any]) -> tuple[int, float, float]:
    """As the API does it behind its validation."""
    store, jobs = PostgresStore(conns(options["dsn"], prepared=False)), bodies(options["per_call"])
    return _for(options["secs"], options["per_call"], lambda: enqueue(store, PROJECT, jobs))


def _in_transaction(conns: Any, options: dict[str, Any]) -> tuple[int, float, float]:
    """As an application does it that shares the database."""
    conn, jobs = conns(options["dsn"], prepared=False), bodies(options["per_call"])

    def call() -> None:
        with conn.transaction():
            enqueue_in_transaction(conn, PROJECT, jobs)

    return _for(options["secs"], options["per_call"], call)


def _fused(conns: Any, options: dict[str, Any]) -> tuple[int, float, float]:
    """The ceiling of a drain: acks travel with the next claim in one prepared statement, until nothing is left."""
    cursor = conns(options["dsn"], prepared=True).cursor(binary=True)
    params: dict[str, Any] = {"job_ids": [], "tokens": [], "queue_id": QUEUE, "worker_id": WORKER, "batch": options["batch"]}
    params["since"] = options.get("since") or datetime(2000, 1, 1, tzinfo=UTC)
    begin, end, done = time.time(), time.time(), 0
    while True:
        rows = cursor.execute(statement("fused"), params).fetchall()
        if done:
            end = time.time()
        if not rows:
            return done, begin, end
        done += len(rows)
        params["job_ids"], params["tokens"] = [row[0] for row in rows], [row[1] for row in rows]
        params["since"] = max(row[2] for row in rows) - LAG


_LOOPS: Final[dict[str, Loop]] = {
    "insert": _insert,
    "insert_in_transaction": _insert_in_transaction,
    "enqueue": _enqueue,
    "in_transaction": _in_transaction,
    "fused": _fused,
}
_PREPARED: Final = frozenset({"insert", "insert_in_transaction", "fused"})


def _serve(pipe: Any, barrier: Any) -> None:
    held: dict[tuple[str, bool], psycopg.Connection[Any]] = {}

    def conns(dsn: str, *, prepared: bool) -> psycopg.Connection[Any]:
        if (dsn, prepared) not in held:
            settings = {"autocommit": True, "prepare_threshold": 0} if prepared else CONNECT
            held[dsn, prepared] = psycopg.connect(dsn, **settings)
            if prepared:
                held[dsn, prepared].execute(PLANS)  # the runner's own settings, without which a plan of an empty table stays
        return held[dsn, prepared]

    while True:
        try:
            loop, options = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            if loop:
                conns(options["dsn"], prepared=loop in _PREPARED)
            barrier.wait(60)
            pipe.send(_LOOPS[loop](conns, options) if loop else (0, 0.0, 0.0))
        except Exception as error:  # noqa: BLE001 - told to the parent, which ends the run
            barrier.abort()
            pipe.send(f"{loop}: {type(error).__name__}: {error}")
