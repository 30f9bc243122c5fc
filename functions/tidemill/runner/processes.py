"""Jobs in processes of their own: own memory, a hard time limit, killed on cancel; a death is reported as a crash with its exit code.

A process is kept for the next job while it is well. It dies with the worker (the kernel sees to it), and so does its group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any, Final

from tidemill.domain.errors import LeaseLost, TidemillError
from tidemill.domain.jobs import Ack
from tidemill.domain.transitions import Event
from tidemill.observe.correlation import about
from tidemill.ports import JobSource
from tidemill.runner import acks
from tidemill.runner.board import Board
from tidemill.runner.log import Log
from tidemill.runner.task import Task

CANCEL_GRACE_SECS: Final = 1.0
JOBS_PER_PROCESS: Final = 1_000
REPORTS: Final = frozenset({"progress", "checkpoint", "output", "logs", "children", "parents"})


class Processes:
    """The children of one worker. `run` is called by the thread that has the job's place."""

    def __init__(self, board: Board, source: JobSource, app_path: str | None, log: Log) -> None:
        self._board = board
        self._source = source
        self._app_path = app_path
        self._log = log
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    def run(self, task: Task) -> None:
        """Runs an open attempt to its end."""
        try:
            child = self._child()
        except (OSError, ValueError) as error:
            self._board.end(task, acks.failed(task, "ProcessNotStarted", f"no process could be started: {error}"))
            return
        task.interrupt = lambda force: child.interrupt(task, force=force)
        child.task = task
        if task.cancelled:
            child.interrupt(task, force=False)
        try:
            ack = child.run(self._source, self._board)
        except (EOFError, OSError):
            ack = None
        child.task = None
        if ack is None or child.jobs >= JOBS_PER_PROCESS or child.doomed:
            code = child.end()
            with self._lock:
                self._all.discard(child)
        else:
            with self._lock:
                self._idle.append(child)
        if ack is None:
            ack = self._died(task, code)
        self._board.end(task, ack)

    def close(self) -> None:
        """Ends all of them."""
        with self._lock:
            children, self._all, self._idle = list(self._all), set(), []
        for child in children:
            child.kill()
        for child in children:
            child.end()

    def _child(self) -> Child:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        if self._app_path is None:
            raise ValueError("a process needs to know the app's path, module:app")
        child = Child(self._app_path)
        with self._lock:
            self._all.add(child)
        return child

    def _died(self, task: Task, code: int) -> Ack:
        if task.cancelled:
            return acks.simple(task, Event.ACK_CANCELLED)
        self._log.warning("process_died", **about(task.job), exit_code=code)
        hint = f" ({signal.Signals(code - 128).name})" if 128 < code < 128 + 65 and code - 128 in set(signal.Signals) else ""
        words = f"the job's process ended with exit code {code}{hint} before it had a result"
        return acks.failed(task, "ProcessDied", words, exit_code=code, event=Event.CRASH)


class Child:
    """One process and the pipe to it."""

    def __init__(self, app_path: str) -> None:
        ours, theirs = socketpair()
        with theirs:
            paths = os.pathsep.join(path for path in sys.path if path)
            package = str(Path(__file__).resolve().parents[2])
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([paths, package])}
            command = [sys.executable, "-m", "tidemill.runner.child", str(theirs.fileno()), app_path, str(os.getpid())]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=environment, start_new_session=True
            )
        self._pipe: Connection = Connection(ours.detach())
        self._sending = threading.Lock()
        self.task: Task | None = None
        self.jobs = 0
        self.doomed = False

    def run(self, source: JobSource, board: Board) -> Ack | None:
        """The ack of `task`; serves its reports meanwhile. EOFError if the process dies."""
        task = self.task
        assert task is not None
        self.jobs += 1
        limit_s = None if task.deadline is None else task.deadline - time.monotonic()
        self._send(("run", task.job, limit_s))
        while True:
            kind, *rest = self._pipe.recv()
            if kind == "ended":
                ack: Ack = rest[0]
                return ack
            if kind == "unloadable":
                return acks.failed(task, "AppUnloadable", rest[0])
            self._send(self._answer(task, source, board, *rest))

    def interrupt(self, task: Task, *, force: bool) -> None:
        """Ends the process if it still runs this job: at once, or after a grace in which the handler may stop by itself."""
        if self.task is not task:
            return
        self.doomed = True
        if force:
            self.kill()
            return
        with contextlib.suppress(OSError):
            self._send(("cancel",))
        timer = threading.Timer(CANCEL_GRACE_SECS, lambda: self.kill() if self.task is task else None)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        """Ends the process and all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Its exit code, 128 + n for signal n as shells say it."""
        self._pipe.close()
        try:
            code = self._process.wait(CANCEL_GRACE_SECS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        self.kill()  # what it had started and left behind
        return 128 - code if code < 0 else code

    def _send(self, message: tuple[Any, ...]) -> None:
        with self._sending:
            self._pipe.send(message)

    def _answer(self, task: Task, source: JobSource, board: Board, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if name not in REPORTS:
            return ("refused", "internal", f"{name} is no report")
        report: Callable[..., Any] = getattr(source, name)
        try:
            return ("answer", report(task.lease, *arguments))
        except LeaseLost as error:
            board.lose(task)
            return ("refused", error.code, error.detail)
        except TidemillError as error:
            return ("refused", error.code, error.detail)
