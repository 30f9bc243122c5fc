"""What this worker holds, runs and has to report: the one place that knows whether an attempt is still open."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from tidemill.domain.jobs import Ack
from tidemill.domain.transitions import Event
from tidemill.runner.acks import simple
from tidemill.runner.bell import Bell
from tidemill.runner.task import Task

BATCH: Final = 500
SHORT_SECS: Final = 0.001
MEAN_SHARE: Final = 0.05
"""The weight of the newest run in the mean."""


class Board:
    """Dictionaries by lease token. Their single operations are atomic in CPython, which is what the comments below rely on."""

    def __init__(self) -> None:
        self.held: dict[str, Task] = {}
        self.running: dict[str, Task] = {}
        self.ready: deque[Task] = deque()
        self.outbox: deque[Ack] = deque()
        self.to_ack = Bell()
        self.to_drain = Bell()
        self.acking = False
        self.mean_run_secs: float | None = None

    def hold(self, task: Task) -> None:
        """From now on heartbeats keep its lease."""
        self.held[task.job.lease_token] = task

    def end(self, task: Task, ack: Ack) -> bool:
        """Reports the end of a running attempt. False if somebody has ended it before (time-out, stop window): this end is dropped."""
        if self.running.pop(ack.lease_token, None) is None:  # atomic: of two ends one gets the task
            return False
        self.report(task, ack)
        return True

    def report(self, task: Task, ack: Ack) -> None:
        """Puts an ack on its way, unless the lease is lost."""
        if task.lost:
            self.held.pop(task.job.lease_token, None)
        else:
            outbox = self.outbox
            outbox.append(ack)
            # A lone job's ack goes at once. While more short jobs are at hand they share a commit.
            mean = self.mean_run_secs
            if not self.ready or mean is None or mean > SHORT_SECS or len(outbox) >= BATCH:
                self.to_ack.ring()
        if not self.running:
            self.to_drain.ring()

    def release(self, tasks: Iterable[Task]) -> None:
        """Gives jobs back that have not been started."""
        for task in tasks:
            self.report(task, simple(task, Event.RELEASE))

    def take_ready(self) -> list[Task]:
        """All jobs that wait for a place, now without one."""
        taken = []
        while True:
            try:
                taken.append(self.ready.pop())
            except IndexError:
                return taken[::-1]

    def lose(self, task: Task) -> None:
        """The lease is gone: the handler is told to stop and nothing it says is reported."""
        task.lost = True
        self.held.pop(task.job.lease_token, None)
        self.stop(task, force=True)

    def stop(self, task: Task, *, force: bool) -> None:
        """Asks the handler to stop; `force` where its isolation can end it."""
        task.cancelled = True
        interrupt = task.interrupt
        if interrupt is not None:
            interrupt(force)

    def ran(self, secs: float) -> None:
        """Notes how long a handler took."""
        mean = self.mean_run_secs
        self.mean_run_secs = secs if mean is None else mean + (secs - mean) * MEAN_SHARE

    def is_clear(self) -> bool:
        """True when nothing is left to report."""
        return not self.outbox and not self.acking
