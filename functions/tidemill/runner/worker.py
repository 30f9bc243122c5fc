"""One worker: wires the threads, lives until it is told to stop, and leaves nothing behind."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final, Literal

from tidemill.domain.errors import Busy, Forbidden
from tidemill.domain.jobs import Registration
from tidemill.domain.schedule import Spec
from tidemill.ports import JobSource
from tidemill.runner.acker import Acker
from tidemill.runner.aio import EventLoop
from tidemill.runner.app import App, JobType
from tidemill.runner.backoff import Patience
from tidemill.runner.bell import Bell
from tidemill.runner.board import Board
from tidemill.runner.claimer import Claimer
from tidemill.runner.declare import declared
from tidemill.runner.drain import drain
from tidemill.runner.execute import Executor
from tidemill.runner.heart import Heart
from tidemill.runner.log import Log
from tidemill.runner.options import WorkerOptions
from tidemill.runner.processes import Processes
from tidemill.runner.protection import Protection
from tidemill.runner.slots import Slots
from tidemill.runner.ticker import Ticker
from tidemill.runner.watch import Watch
from tidemill.version import __version__

Reason = Literal["stopped", "restart"]
STUCK_SECS: Final = 120.0


class Worker:
    """Runs jobs of `app` that come from `source`. `run` blocks; `stop` may be called from any thread and from signal handlers."""

    def __init__(
        self,
        app: App,
        source: JobSource,
        options: WorkerOptions | None = None,
        log: Log | None = None,
        duties: Callable[[], object] | None = None,
    ) -> None:
        """`duties`: what of the scheduler's work it does every second."""
        self.app = app
        self.source = source
        self.options = options or WorkerOptions()
        self.log = log or Log()
        self.board = Board()
        self.worker_id: str | None = None
        self._asked: Reason | None = None
        self._stop_bell = Bell()
        types = {name: (self._isolated(kind), app.execution(kind)) for name, kind in app.jobs.items()}
        self.processes = Processes(self.board, source, self.options.app_path, self.log)
        self.watch = Watch(self.board, self.log, self._is_well, self.options.health_file)
        self.executor = Executor(self.board, source, app, self.log, self.watch.look, self.processes.run)
        self.slots = Slots(self.options.concurrency, self.board, self.executor.run, self._begin_coroutine)
        self.coroutines = EventLoop(source, self.board, app, self.log, self.executor.begin, self.slots.give_back)
        self.acker = Acker(source, self.board, self.log)
        self.claimer = Claimer(source, self.board, self.slots, types, self.log, self.watch.look)
        self.heart: Heart | None = None
        self.ticker = Ticker(duties, self.log) if duties is not None else None

    def run(self) -> Reason:
        """Returns once it has stopped and given back what it had not finished: `restart` if that was asked.

        Raises what the source says to a registration that can never succeed (NotFound for a queue, Unauthenticated …).
        """
        if not self._register():
            self.source.close()
            return self._asked or "stopped"
        assert self.heart is not None
        for part in (self.acker, self.heart, self.watch, self.claimer):
            part.thread.start()
        if self.ticker is not None:
            self.ticker.thread.start()
        self.log.info("started", queues=list(self.options.queues), concurrency=self.options.concurrency, job_types=len(self.app.jobs))
        while self._asked is None:
            self._stop_bell.wait()
        self.log.info("stopping", running=len(self.board.running), window_s=self.options.stop_window_secs)
        drain(self)
        return self._asked

    def stop(self, reason: Reason = "stopped") -> None:
        """Starts the drain: no claim after this. Safe in a signal handler."""
        self._asked = reason
        self.claimer.close()
        self._stop_bell.ring()

    @property
    def is_stopping(self) -> bool:
        """True from the first `stop` on."""
        return self._asked is not None

    def _register(self) -> bool:
        """False if it was told to stop before the other side answered."""
        registration = Registration(
            name=self.options.name,
            queues=tuple(self.options.queues),
            hostname=socket.gethostname()[:255],
            pid=os.getpid(),
            version=__version__,
            max_concurrency=self.options.concurrency,
            lease_ms=self.options.lease_ms,
        )
        specs, patience = declared(self.app), Patience()
        while self._asked is None:
            try:
                registered = self.source.register(registration)
                self._declare(specs)
            except Busy as error:
                wait_s = patience.failed()
                self.log.warning("register_failed", code=error.code, failures=patience.failures, retry_in_ms=int(wait_s * 1000))
                self._stop_bell.wait(wait_s)
                continue
            self.worker_id = registered.worker_id
            self.log.bind(worker_id=registered.worker_id)
            self.heart = Heart(self.source, self.board, registered, self.log, self._command)
            self.source.on_word(self.heart.beat_now)
            if self.options.ecs_agent:
                self.heart.on_beat = Protection(self.options.ecs_agent, self.options.protection_minutes, self.log).tell
            return True
        return False

    def _declare(self, specs: Mapping[str, Spec]) -> None:
        """Brings the app's schedules to the other side; a key that may not do that leaves them as they are."""
        try:
            counts = self.source.declare_schedules(self.options.app_path or self.options.name, specs)
        except Forbidden as error:
            if specs:
                self.log.warning("schedules_not_declared", code=error.code, schedules=len(specs))
            return
        if specs or any(counts.values()):
            self.log.info("schedules_declared", schedules=len(specs), **counts)

    def _command(self, command: str) -> None:
        if command in ("restart", "terminate"):
            self.stop("restart" if command == "restart" else "stopped")
            return
        assert self.heart is not None
        self.claimer.quiet = command == "quiet"
        self.heart.status = "quiet" if command == "quiet" else "running"
        self.slots.room.ring()
        self.source.wake()
        self.heart.beat_now()

    def _begin_coroutine(self, task: object) -> None:
        self.coroutines.start(task)  # type: ignore[arg-type]  # the slots hand on tasks only

    def _isolated(self, kind: JobType) -> JobType:
        wanted = self.options.isolation
        if wanted is None or kind.isolation == "async" or wanted == "async":
            return kind
        return JobType(kind.name, kind.handler, wanted, kind.timeout_ms, kind.not_retryable, kind.defaults)

    def _is_well(self) -> bool:
        """Both loops have made a turn lately; an outage on the other side is no fault of ours."""
        now = time.monotonic()
        return now - self.claimer.alive_at < STUCK_SECS and self.claimer.thread.is_alive()
