"""Keeps leases alive and hears what is asked of this worker, in a thread and on a connection of its own.

A handler that keeps the interpreter to itself (one call into C for longer than a lease) starves every thread: run it as a process.
"""

from __future__ import annotations

import random
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tidemill.domain import limits
from tidemill.domain.errors import TidemillError
from tidemill.domain.jobs import Heartbeat, HeartbeatAnswer, Registered, WorkerStatus
from tidemill.observe.correlation import about
from tidemill.ports import JobSource
from tidemill.runner.backoff import Patience
from tidemill.runner.bell import Bell
from tidemill.runner.board import Board
from tidemill.runner.log import Log
from tidemill.runner.task import Task

_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = resource.getpagesize()


class Heart:
    """One thread. `on_command` is called with quiet, resume, restart or terminate."""

    def __init__(self, source: JobSource, board: Board, registered: Registered, log: Log, on_command: Callable[[str], None]) -> None:
        self._source = source
        self._board = board
        self._every_s = registered.heartbeat_interval_ms / 1000
        self._log = log
        self._on_command = on_command
        self._closed = threading.Event()
        self._bell = Bell()
        self._patience = Patience(0.1, min(2.0, self._every_s))
        self._cpu = (time.monotonic(), time.process_time())
        self.on_beat: Callable[[bool], None] | None = None
        """Told with every beat whether leases are held."""
        self.status: WorkerStatus = "running"
        self.alive_at = time.monotonic()
        self.thread = threading.Thread(target=self._loop, name="tidemill-heart", daemon=True)

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        self._bell.ring()

    def beat_now(self) -> None:
        """Something is asked of us, or our status has changed: do not wait for the next beat."""
        self._bell.ring()

    def _loop(self) -> None:
        wait_s = self._every_s * random.uniform(0.5, 1.0)
        while True:
            self._bell.wait(wait_s)
            if self._closed.is_set():
                return
            try:
                self._beat()
            except TidemillError as error:
                wait_s = self._failed(error.code)
            except Exception as error:  # noqa: BLE001 - a fault of a source must not stop the heart
                wait_s = self._failed(type(error).__name__)
            else:
                self.alive_at = time.monotonic()
                wait_s = self._every_s
                if self._patience.succeeded():
                    self._log.info("heartbeats_resumed")

    def _beat(self) -> None:
        tasks = list(self._board.held.values())
        chunks = [tasks[at : at + limits.HEARTBEAT_LEASES] for at in range(0, len(tasks), limits.HEARTBEAT_LEASES)] or [[]]
        cpu_percent, memory = self._cpu_percent(), memory_mb()
        for chunk in chunks:
            beat = Heartbeat([task.lease for task in chunk], len(self._board.running), cpu_percent, memory, self.status)
            self._heed(chunk, self._source.heartbeat(beat))
        if self.on_beat is not None:
            self.on_beat(bool(tasks))

    def _heed(self, tasks: list[Task], answer: HeartbeatAnswer) -> None:
        if answer.cancel or answer.lost:
            by_id = {task.job.job_id: task for task in tasks}
            for job_id in answer.cancel:
                task = by_id.get(job_id)
                if task is not None and not task.cancelled:
                    self._board.stop(task, force=False)
            for job_id in answer.lost:
                task = by_id.get(job_id)
                if task is None or task.job.lease_token not in self._board.held:
                    continue  # acked while the beat was on its way
                if task.job.lease_token in self._board.running:
                    self._log.warning("lease_lost", **about(task.job))
                self._board.lose(task)
        if answer.command is not None:
            self._log.info("command", command=answer.command)
            self._on_command(answer.command)

    def _failed(self, code: str) -> float:
        wait_s = self._patience.failed()
        self._log.warning("heartbeat_failed", code=code, failures=self._patience.failures, retry_in_ms=int(wait_s * 1000))
        return wait_s

    def _cpu_percent(self) -> float:
        (wall, cpu), self._cpu = self._cpu, (time.monotonic(), time.process_time())
        return round(100 * (self._cpu[1] - cpu) / max(self._cpu[0] - wall, 1e-3), 1)


def memory_mb() -> float:
    """Resident memory of this process."""
    try:
        return round(int(_STATM.read_text().split()[1]) * _PAGE_BYTES / 1e6, 1)
    except (OSError, IndexError, ValueError):
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
