"""How many claims a partition's single job waits beside a flood of another: at most one of each waiting partition, and those under way."""

from __future__ import annotations

import threading
from typing import Any, Final

from benchmarks.measure import Say, Size
from benchmarks.results import Row
from benchmarks.rig import NAME, PROJECT, WORKER, Base, make_base
from tidemill.domain.jobs import ClaimRequest
from tidemill.engine.claim import claim
from tidemill.engine.enqueue import enqueue
from tidemill.local import postgres
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

FLOOD: Final = 100_000
OTHERS: Final = 20
WORKERS: Final = 8
NEWCOMERS: Final = 20
ANSWER_SECS: Final = 60.0


def flood_rows(running: postgres.Server, size: Size, say: Say) -> list[Row]:
    """Eight workers claim job by job while one newcomer after the other arrives; how many claims each of them waited."""
    flood = FLOOD if size.jobs >= 20_000 else FLOOD // 10
    base = make_base(running, "bench_flood")
    with connect(base.dsn) as conn:
        store = PostgresStore(conn)
        for _ in range(flood // 1_000):
            _put(store, ["flood"] * 1_000)
        _put(store, [f"p{i}" for i in range(OTHERS)] * 40)
        conn.execute("vacuum analyze")
        waits = _Claims(base).newcomers(store)
    most = OTHERS + 1 + WORKERS
    row = Row("gates", f"a newcomer beside {flood:,} jobs of one partition and {OTHERS} others, {WORKERS} workers", "claims", waits, [most])
    row.note = f"the longest wait {max(waits):.0f}; at most {most} are due"
    say(f"{row.what}: {row.note}")
    return [row]


def _put(store: PostgresStore, partitions: list[str]) -> None:
    enqueue(store, PROJECT, [{"job_type": name, "partition_key": name, "queue": NAME} for name in partitions])


class _Claims:
    """Workers that claim one job at a time, and the order in which they got them."""

    def __init__(self, base: Base) -> None:
        self._base, self._order, self._over = base, list[str](), threading.Event()
        self._more = threading.Condition()

    def newcomers(self, store: PostgresStore) -> list[float]:
        """How many claims each newcomer waited, its own included."""
        threads = [threading.Thread(target=self._work) for _ in range(WORKERS)]
        for thread in threads:
            thread.start()
        waits: list[float] = []
        try:
            for n in range(NEWCOMERS):
                since = len(self._order)
                _put(store, [f"new{n}"])
                waits.append(self._wait(f"new{n}", since))
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        return waits

    def _wait(self, name: str, since: int) -> float:
        with self._more:
            assert self._more.wait_for(lambda: name in self._order[since:], ANSWER_SECS), f"{name} was not claimed"
            return self._order.index(name, since) - since + 1

    def _work(self) -> None:
        request: Any = ClaimRequest(PROJECT, WORKER, (NAME,), 1, None, 600_000, True)
        with connect(self._base.dsn) as conn:
            store = PostgresStore(conn)
            while not self._over.is_set():
                for job in claim(store, request):
                    with self._more:
                        self._order.append(job.job_type)
                        self._more.notify_all()
