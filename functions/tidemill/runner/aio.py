"""Coroutines run on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tidemill.domain.errors import LeaseLost, TidemillError
from tidemill.domain.jobs import Ack
from tidemill.domain.transitions import Event
from tidemill.observe.correlation import RUNNING, about
from tidemill.ports import JobSource
from tidemill.runner import acks
from tidemill.runner.app import App
from tidemill.runner.board import Board
from tidemill.runner.context import AsyncContext
from tidemill.runner.log import Log
from tidemill.runner.task import Task


class EventLoop:
    """Starts with its first coroutine.

    `begin` opens an attempt (False: nothing to run any more); `give_back` frees a place and may answer with the next coroutine for it.
    """

    def __init__(
        self, source: JobSource, board: Board, app: App, log: Log, begin: Callable[[Task], bool], give_back: Callable[[], Task | None]
    ) -> None:
        self._source = source
        self._board = board
        self._app = app
        self._log = log
        self._begin = begin
        self._give_back = give_back
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._reports: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping: asyncio.Task[None] | None = None

    def start(self, task: Task) -> None:
        """Runs the coroutine; it has a place already. From any thread."""
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._create, task)

    def close(self, timeout_s: float) -> None:
        """Cancels what still runs and ends the loop; a coroutine that ignores that is left behind with its thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(self._stop)
        thread.join(timeout_s)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._reports = ThreadPoolExecutor(1, "tidemill-reports")
                self._thread = threading.Thread(target=self._main, args=(self._loop,), name="tidemill-async", daemon=True)
                self._thread.start()
            return self._loop

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.close()

    def _stop(self) -> None:
        for running in self._tasks:
            running.cancel()
        self._stopping = asyncio.ensure_future(self._stop_when_quiet())

    async def _stop_when_quiet(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)
        asyncio.get_running_loop().stop()

    def _create(self, task: Task) -> None:
        loop = asyncio.get_running_loop()
        running = loop.create_task(self._run(task))

        def interrupt(_: bool) -> None:
            loop.call_soon_threadsafe(running.cancel)

        task.interrupt = interrupt
        self._tasks.add(running)
        running.add_done_callback(self._ended)
        if task.cancelled:
            running.cancel()

    def _ended(self, running: asyncio.Task[None]) -> None:
        self._tasks.discard(running)
        following = self._give_back()
        if following is not None:
            self._create(following)

    async def _run(self, task: Task) -> None:
        if not self._begin(task):
            return
        assert self._reports is not None
        ctx = AsyncContext(task, self._source, self._app, asyncio.get_running_loop(), self._reports)
        ack = await self._outcome(task, ctx)
        if not self._board.end(task, ack):
            self._log.warning("late_result_dropped", **about(task.job))
        self._board.ran(time.monotonic() - task.started_at)

    async def _outcome(self, task: Task, ctx: AsyncContext) -> Ack:
        RUNNING.set(task.job)  # of this coroutine's context alone
        try:
            value = await task.execute(ctx, json.loads(task.job.payload))  # type: ignore[misc]  # it has a handler
            ack = acks.completed(task, value)
        except asyncio.CancelledError as error:
            ack = acks.simple(task, Event.ACK_CANCELLED) if task.cancelled else acks.raised(task, error)
        except LeaseLost as error:
            if error.job_id == task.job.job_id:
                self._board.lose(task)
            ack = acks.raised(task, error)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its attempt's end, never the loop's
            ack = acks.raised(task, error)
        try:
            await ctx.settled()
        except (LeaseLost, asyncio.CancelledError):
            if not task.cancelled:
                self._board.lose(task)
        except TidemillError as error:
            self._log.warning("report_lost", **about(task.job), code=error.code)
        return ack
