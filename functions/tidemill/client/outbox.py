"""Jobs that wait for a commit, in the order given, each group with the way it will be sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.domain.errors import TidemillError

JobObject = dict[str, Any]
Send = Callable[[list[JobObject]], object]


class NotSent(TidemillError):
    """The transaction is committed, but its jobs did not all reach the queue; `jobs` holds those. The cause says why."""

    code = "not_sent"

    def __init__(self, jobs: list[JobObject], cause: BaseException) -> None:
        self.jobs = jobs
        super().__init__(f"your transaction is committed, but {len(jobs)} of its jobs may not be in the queue: {cause}")


class Outbox:
    """Not thread-safe: it belongs to one transaction."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Send, list[JobObject]]] = []

    def add(self, send: Send, jobs: list[JobObject]) -> None:
        """Keeps the jobs."""
        if jobs:
            self._waiting.append((send, jobs))

    def join(self, inner: Outbox) -> None:
        """Takes over what a released savepoint has collected."""
        self._waiting += inner._waiting

    def flush(self) -> None:
        """Sends everything. NotSent with what is left at the first that fails."""
        while self._waiting:
            send, jobs = self._waiting[0]
            try:
                send(jobs)
            except Exception as error:
                left = [job for _, some in self._waiting for job in some]
                self._waiting.clear()
                raise NotSent(left, error) from error
            self._waiting.pop(0)
