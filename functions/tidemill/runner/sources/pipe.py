"""The reports of a job in a process of its own, passed on to the worker."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from tidemill.domain.errors import LeaseLost, TidemillError
from tidemill.domain.jobs import Enqueued, JobSpec, Lease, LogLine, ParentResult


class Refused(TidemillError):
    """The worker's answer to a report."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class PipeSource:
    """The reports of ports.JobSource, passed on to the worker."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._turn = threading.Lock()
        self.answers: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def progress(self, lease: Lease, current: int, total: int | None, message: str | None) -> None:
        self._ask(lease, "progress", current, total, message)

    def checkpoint(self, lease: Lease, data_json: str, cursor: str | None) -> None:
        self._ask(lease, "checkpoint", data_json, cursor)

    def output(self, lease: Lease, data_json: str) -> None:
        self._ask(lease, "output", data_json)

    def logs(self, lease: Lease, lines: Sequence[LogLine]) -> None:
        self._ask(lease, "logs", list(lines))

    def children(self, lease: Lease, jobs: Sequence[JobSpec]) -> list[Enqueued]:
        made: list[Enqueued] = self._ask(lease, "children", [dict(job) for job in jobs])
        return made

    def parents(self, lease: Lease) -> list[ParentResult]:
        found: list[ParentResult] = self._ask(lease, "parents")
        return found

    def _ask(self, lease: Lease, name: str, *arguments: Any) -> Any:
        with self._turn:
            self._pipe.send(("report", name, arguments))
            kind, *rest = self.answers.get()
        if kind == "answer":
            return rest[0]
        code, detail = rest
        raise LeaseLost(lease.job_id) if code == LeaseLost.code else Refused(code, detail)
