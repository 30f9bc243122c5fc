"""The other end of runner.processes: runs one job after another that come down a pipe. `python -m tidemill.runner.child FD APP PARENT`."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

from tidemill.domain.errors import TidemillError
from tidemill.domain.jobs import ClaimedJob
from tidemill.observe.correlation import RUNNING, install
from tidemill.runner import acks
from tidemill.runner.app import App
from tidemill.runner.context import Context
from tidemill.runner.loading import load_app
from tidemill.runner.sources.pipe import PipeSource
from tidemill.runner.task import Task

PR_SET_PDEATHSIG = 1


class Child:
    """A reader thread takes what comes; the main thread runs the handlers, so that they may set signal handlers."""

    def __init__(self, pipe: Connection, app: App) -> None:
        self._pipe = pipe
        self._app = app
        self._source = PipeSource(pipe)
        self._orders: queue.SimpleQueue[tuple[ClaimedJob, float | None]] = queue.SimpleQueue()
        self._task: Task | None = None

    def serve(self) -> None:
        """Never returns: the process ends with the pipe."""
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            job, limit_s = self._orders.get()
            self._run(job, limit_s)

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = self._pipe.recv()
                if message[0] == "run":
                    self._orders.put((message[1], message[2]))
                elif message[0] == "cancel":
                    if self._task is not None:
                        self._task.cancelled = True
                else:
                    self._source.answers.put(message)
        os._exit(0)  # the worker is gone or has no more use for us; whatever the handler does, nobody would hear of it

    def _run(self, job: ClaimedJob, limit_s: float | None) -> None:
        known = self._app.jobs[job.job_type]
        now = time.monotonic()
        task = self._task = Task(job, known, self._app.execution(known), now)
        task.deadline = None if limit_s is None else now + limit_s
        ctx = Context(task, self._source, self._app)  # type: ignore[arg-type]  # the reports of a source are all it uses
        mark = RUNNING.set(job)
        try:
            value = task.execute(ctx, json.loads(job.payload))  # type: ignore[misc]  # just given
            if known.is_coroutine:
                import asyncio

                value = asyncio.run(value)
            ack = acks.completed(task, value)
        except SystemExit:
            raise  # the handler asked for its process's end: a crash with that exit code
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its attempt's end
            ack = acks.raised(task, error)
        RUNNING.reset(mark)
        with contextlib.suppress(TidemillError):
            ctx.flush_log()
        self._task = None
        self._pipe.send(("ended", ack))


def main(arguments: Sequence[str]) -> None:
    """Ties this process to its parent's life and serves."""
    fd, app_path, parent = int(arguments[0]), arguments[1], int(arguments[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's business, which then tells us
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)
    pipe = Connection(fd)
    try:
        app = load_app(app_path)
    except TidemillError as error:
        pipe.recv()
        pipe.send(("unloadable", error.detail))
        sys.exit(1)
    install(os.environ.get("TIDEMILL_LOG_LEVEL", "info"))
    Child(pipe, app).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
