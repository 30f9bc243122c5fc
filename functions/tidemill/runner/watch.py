"""Looks at what no event tells: time limits, jobs that wait for a place longer than thought, and the health file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tidemill.observe.correlation import about
from tidemill.runner import acks
from tidemill.runner.bell import Bell
from tidemill.runner.board import Board
from tidemill.runner.log import Log

LOOK_SECS: Final = 0.02
IDLE_SECS: Final = 1.0
OVERDUE_SECS: Final = 0.15


class Watch:
    """One thread: looks every 20 ms while there is something to look at, else every second."""

    def __init__(self, board: Board, log: Log, is_well: Callable[[], bool], health_file: Path | None) -> None:
        self._board = board
        self._log = log
        self._is_well = is_well
        self._health_file = health_file
        self._bell = Bell()
        self._closed = threading.Event()
        self._touched_at = 0.0
        self.thread = threading.Thread(target=self._loop, name="tidemill-watch", daemon=True)

    def look(self) -> None:
        """There is something to look at now."""
        self._bell.ring()

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        self._bell.ring()

    def _loop(self) -> None:
        while not self._closed.is_set():
            self._touch()
            has_limits = self._end_late()
            has_stock = self._return_overdue()
            if self._board.outbox:
                self._board.to_ack.ring()
            if has_limits or has_stock:
                self._closed.wait(LOOK_SECS)
            else:
                self._bell.wait(IDLE_SECS)

    def _end_late(self) -> bool:
        """Fails attempts whose time is up; True if there are others with a limit."""
        now, others = time.monotonic(), False
        for task in list(self._board.running.values()):
            if task.deadline is None:
                continue
            if now < task.deadline:
                others = True
                continue
            limit_ms = int((task.deadline - task.started_at) * 1000 + 0.5)
            if self._board.end(task, acks.failed(task, "TimedOut", f"the attempt ran longer than its limit of {limit_ms:,} ms")):
                self._log.warning("timed_out", **about(task.job), timeout_ms=limit_ms)
                self._board.stop(task, force=True)
        return others

    def _return_overdue(self) -> bool:
        """Gives the stock back if it stands still, so that another worker can run it; True if there is stock."""
        ready = self._board.ready
        try:
            oldest_at = ready[0].claimed_at
        except IndexError:
            return False
        now = time.monotonic()
        if now - oldest_at < OVERDUE_SECS:
            return True
        running = list(self._board.running.values())
        if running and all(now - task.started_at > OVERDUE_SECS for task in running):
            tasks = self._board.take_ready()
            self._board.mean_run_secs = None  # it was wrong
            self._board.release(tasks)
            self._log.info("stock_released", jobs=len(tasks))
        return bool(ready)

    def _touch(self) -> None:
        now = time.monotonic()
        if self._health_file is None or now - self._touched_at < IDLE_SECS or not self._is_well():
            return
        self._touched_at = now
        try:
            self._health_file.touch()
        except OSError as error:
            self._log.warning("health_file_unwritable", error=type(error).__name__)
