"""Brings jobs in: claims the next batch while the last one runs, and sleeps where there is nothing to do."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from tidemill.domain.errors import TidemillError
from tidemill.domain.jobs import ClaimedJob
from tidemill.observe.correlation import about
from tidemill.ports import JobSource
from tidemill.runner import acks
from tidemill.runner.app import Execute, JobType
from tidemill.runner.backoff import Patience
from tidemill.runner.bell import Bell
from tidemill.runner.board import BATCH, Board
from tidemill.runner.log import Log
from tidemill.runner.slots import Slots
from tidemill.runner.task import Task

STOCK: Final = 1_000
STOCK_SECS: Final = 0.05
"""Jobs may be claimed ahead of a free place if they are expected to get one within this time."""
POLL_SECS: Final = (0.2, 1.0)
HAND_OVER_SECS: Final = 0.0003
"""After a claim that brought less than was wanted: the handlers' threads get the interpreter first, then we look for more."""


class Claimer:
    """One thread. `quiet` stops it from claiming; `close` for good, and an answer that comes later is released at once."""

    def __init__(
        self,
        source: JobSource,
        board: Board,
        slots: Slots,
        types: Mapping[str, tuple[JobType, Execute]],
        log: Log,
        on_stock: Callable[[], None],
    ) -> None:
        self._source = source
        self._on_stock = on_stock
        self._board = board
        self._slots = slots
        self._types = types
        self._log = log
        self._closed = False
        self._nap = Bell()
        self._patience = Patience()
        self.quiet = False
        self.alive_at = time.monotonic()
        self.thread = threading.Thread(target=self._loop, name="tidemill-claim", daemon=True)

    def close(self) -> None:
        """No claim starts after this. Safe in a signal handler: nothing here waits for a lock."""
        self._closed = True
        self._source.wake()
        self._slots.room.ring()
        self._nap.ring()

    def _loop(self) -> None:
        room = self._slots.room
        while not self._closed:
            self.alive_at = time.monotonic()
            want = 0 if self.quiet else self._appetite()
            if want < 1:
                self._slots.hungry = True
                if self.quiet or self._appetite() < 1:
                    room.wait(0.25)
                continue
            try:
                self._claim(want)
            except TidemillError as error:
                self._failed(error.code)
            except Exception as error:  # noqa: BLE001 - a fault of a source must not end the worker
                self._failed(type(error).__name__)

    def _claim(self, want: int) -> None:
        if self._patience.failures:
            strays = self._source.release_strays({task.job.job_id for task in list(self._board.held.values())})
            if strays:
                self._log.info("strays_released", jobs=strays)
        jobs = self._source.claim(want)
        if self._patience.succeeded():
            self._log.info("claims_resumed")
        if jobs:
            self._take(jobs)
            if len(jobs) < want:
                self._nap.wait(HAND_OVER_SECS)
        if (not jobs or self._source.is_spent) and not self._closed:
            self._source.rest(random.uniform(*POLL_SECS))

    def _take(self, jobs: list[ClaimedJob]) -> None:
        now, board, types = time.monotonic(), self._board, self._types
        tasks = []
        for job in jobs:
            job_type, execute = types.get(job.job_type, (None, None))
            task = Task(job, job_type, execute, now)
            board.held[job.lease_token] = task
            if execute is None:
                self._refuse(task)
            else:
                tasks.append(task)
        if self._closed:
            board.release(tasks)
        elif tasks:
            self._slots.feed(tasks)
            if board.ready:
                self._on_stock()

    def _refuse(self, task: Task) -> None:
        self._log.error("unknown_job_type", **about(task.job))
        words = f"this worker has no handler for job type {task.job.job_type!r}; it knows {len(self._types)} types"
        self._board.report(task, acks.failed(task, "UnknownJobType", words, retryable=False))

    def _appetite(self) -> int:
        """How many jobs to claim now. Batches are not cut small: with a stock, nothing until half of it is gone."""
        slots, stock = self._slots, len(self._board.ready)
        mean = self._board.mean_run_secs
        target = 0 if mean is None else min(STOCK, int(STOCK_SECS * slots.limit / max(mean, 1e-6)))
        slots.low_water = target // 2
        if target > slots.limit and stock > target // 2:
            return 0
        return min(BATCH, slots.free + target - stock)

    def _failed(self, code: str) -> None:
        wait_s = self._patience.failed()
        self._log.warning("claim_failed", code=code, failures=self._patience.failures, retry_in_ms=int(wait_s * 1000))
        self._nap.wait(wait_s)
