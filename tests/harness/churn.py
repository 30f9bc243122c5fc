"""Eight workers that claim and end jobs in every way, crashes, reaps, cancels and late acks among them, while somebody else watches."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from functools import partial

from harness.mill import Mill, failure, until
from tidemill.domain.errors import TidemillError
from tidemill.domain.jobs import ClaimedJob
from tidemill.domain.transitions import Event
from tidemill.engine.operate import cancel

WORKERS = 8
LOOK_SECS = 0.005  # between two looks of the watcher; an excess would last for a job's time, far longer
DRY_SECS = 0.002  # before one who got nothing tries again, so that those who got something have a processor
# Also those that the reaper cancelled, because they had been asked to stop.
ALL_HAVE_ENDED = "select not exists (select from tidemill.job_queue_entries) and not exists (select from tidemill.job_leases)"
RETRY = {"retry_policy": {"strategy": "fixed", "base_delay_ms": 0, "jitter": False}, "max_attempts": 1_000}


class Churning:
    """A crowd of workers over `queues` until all jobs have ended, or nothing can be claimed for long."""

    def __init__(self, mill: Mill, queues: Sequence[str]) -> None:
        self._mill, self._queues, self.wrong = mill, queues, list[object]()
        self._over = threading.Event()

    def over(self, *questions: str, meanwhile: Callable[[Mill], None] | None = None) -> list[object]:
        """Runs it; what went wrong. Each question is asked all the time from a connection of its own and must never answer more than 0."""
        observer, helper = self._mill.another(), self._mill.another()
        workers = [self._mill.another() for _ in range(WORKERS)]
        threads = [threading.Thread(target=self._guarded(self._work), args=(w, random.Random(i))) for i, w in enumerate(workers)]
        watcher = threading.Thread(target=self._guarded(self._watch), args=(observer, questions))
        watcher.start()
        for thread in threads:
            thread.start()
        if meanwhile is not None:
            meanwhile(helper)
        for thread in threads:
            thread.join(timeout=120)
        self._over.set()
        watcher.join(timeout=120)
        return self.wrong

    def _guarded(self, target: Callable[..., None]) -> Callable[..., None]:
        def run(*args: object) -> None:
            try:
                target(*args)
            except Exception as error:  # noqa: BLE001 - a thread's fault is the test's
                self.wrong.append(error)

        return run

    def _watch(self, observer: Mill, questions: Sequence[str]) -> None:
        while not self._over.is_set():
            for question in questions:
                row = observer.conn.execute(question.encode()).fetchone()
                if row is not None and row[0] is not None and row[0] > 0:
                    self.wrong.append((question, row[0]))
            self._over.wait(LOOK_SECS)

    def _work(self, worker: Mill, chance: random.Random) -> None:
        dry = 0
        while dry < 400:
            jobs = worker.claim(chance.choice((1, 10)), queues=self._queues)
            dry = 0 if jobs else dry + 1
            if not jobs:
                if worker.conn.execute(ALL_HAVE_ENDED).fetchone() == (True,):
                    return
                self._over.wait(DRY_SECS)
            for job in jobs:
                match chance.randrange(10):
                    case 0:  # a crash: the lease runs out, somebody reaps, and the worker reports all the same
                        worker.lapse(job.job_id)
                        until(partial(_is_reaped, worker, job))  # a reaper passes over a lease that somebody has locked just now
                        if worker.complete(job).status != "lease_lost":
                            self.wrong.append(("late ack", job))
                    case 1:
                        try:
                            cancel(worker.store, worker.project_id, job.job_id, force=True, roll=worker.roll)
                        except TidemillError as error:
                            self.wrong.append(error)
                    case 2:
                        worker.ack(job, Event.FAIL, failure=failure(), retry_delay_ms=0)
                    case 3:
                        worker.ack(job, Event.RELEASE)
                    case _:
                        worker.complete(job)


def _is_reaped(worker: Mill, job: ClaimedJob) -> bool:
    worker.reap()
    row = worker.conn.execute(
        "select 1 from tidemill.job_leases where job_id = %s and lease_token = %s", [job.job_id, job.lease_token]
    ).fetchone()
    return row is None
