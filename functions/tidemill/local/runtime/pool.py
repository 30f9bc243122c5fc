"""The processes of one function: as many as are needed, up to its bound; a call waits its turn for a bounded time."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import IO, Any

from tidemill.domain.errors import Unavailable
from tidemill.local.runtime.functions import Function
from tidemill.local.runtime.process import FunctionBroken, FunctionCrashed, InvocationFailed, Process

WAIT_S = 8.0
"""How long a call waits for a free process before it is told to come back."""
WAITING_CALLS = 256
GROW_AFTER_S = 0.03
"""A call that waited this long asks for one more process; shorter bursts are served by those there are."""
IDLE_S = 30.0
"""A process that had nothing to do for this long ends, but for those that stay warm."""
RETRY_AFTER_SECS = 1

logger = logging.getLogger(__name__)


class Pool:
    """Invokes one function. All of it lives in one event loop."""

    def __init__(self, function: Function, settings: Mapping[str, str], log: IO[bytes] | int | None) -> None:
        self.function = function
        self._settings, self._log = settings, log
        self._processes: set[Process] = set()
        self._idle: list[Process] = []
        self._short: deque[asyncio.Future[Process]] = deque()
        self._long: deque[asyncio.Future[Process]] = deque()
        self._long_at_work = 0
        self._starting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._is_open = True

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [process.pid for process in self._processes if process.pid is not None]

    async def warm(self) -> None:
        """Begin what stays warm. FunctionCrashed if the handler does not load."""
        for _ in range(self.function.keeps_warm - len(self._processes)):
            self._give(await self._begin())

    async def invoke(self, event: bytes, *, waits: bool = False) -> bytes:
        """The handler's answer. `waits`: a call that may take long on purpose; such calls leave some processes to the others.

        Unavailable when no process was free in time, InvocationFailed when the function gave no answer.
        """
        try:
            return await self._try(event, waits=waits)
        except FunctionCrashed as error:
            if error.has_begun or isinstance(error, FunctionBroken) or not self._is_open:
                raise
        return await self._try(event, waits=waits)  # its process died before it saw the event, idle or while it began

    async def close(self) -> None:
        """End every process, whatever it is doing. Calls that wait are told to come back."""
        self._is_open = False
        for timer in self._timers:
            timer.cancel()
        for waiting in (*self._short, *self._long):
            if not waiting.done():
                waiting.set_exception(self._busy())
        await asyncio.gather(*(process.kill() for process in list(self._processes)))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._processes.clear()
        self._idle.clear()

    async def _try(self, event: bytes, *, waits: bool) -> bytes:
        process = await self._take(waits=waits)
        try:
            return await process.invoke(event)
        except InvocationFailed as error:
            if not self._is_open:
                raise self._busy() from error
            raise
        finally:
            self._long_at_work -= waits
            self._give(process)

    async def _take(self, *, waits: bool) -> Process:
        if not self._is_open:
            raise self._busy()
        if self._idle and not (self._long if waits else self._short) and (not waits or self._may_begin_long()):
            process = self._idle.pop()
            if process.alive:
                self._long_at_work += waits
                return process
            self._forget(process)
        if len(self._short) + len(self._long) >= WAITING_CALLS:
            raise self._busy()
        waiting: asyncio.Future[Process] = asyncio.get_running_loop().create_future()
        (self._long if waits else self._short).append(waiting)
        if not self._processes and not self._starting:
            self._grow()
        else:
            self._later(GROW_AFTER_S, self._grow)
        try:
            async with asyncio.timeout(WAIT_S):
                return await waiting
        except BaseException as error:  # noqa: BLE001 - raised again below
            with contextlib.suppress(ValueError):
                (self._long if waits else self._short).remove(waiting)
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self._long_at_work -= waits  # handed over in the very moment of giving up
                self._give(waiting.result())
            raise (self._busy() if isinstance(error, TimeoutError) else error) from None

    def _give(self, process: Process) -> None:
        """Hand a free process to who waits first, or keep it."""
        if not process.alive or not self._is_open:
            self._forget(process)
            if self._short or self._long:
                self._grow()
            return
        while self._short or (self._long and self._may_begin_long()):
            is_long = not self._short
            waiting = (self._long if is_long else self._short).popleft()
            if not waiting.done():
                self._long_at_work += is_long
                waiting.set_result(process)
                return
        process.idle_since = asyncio.get_running_loop().time()
        self._idle.append(process)
        self._later(IDLE_S, self._shrink)

    def _may_begin_long(self) -> bool:
        return self._long_at_work < self.function.max_processes - self.function.kept_short

    def _grow(self) -> None:
        """One more process if somebody waits who could use it. One at a time: each start takes a core for a third of a second."""
        wanted = self._short or (self._long and self._may_begin_long())
        if not wanted or self._starting or not self._is_open or len(self._processes) >= self.function.max_processes:
            return
        self._starting += 1
        self._do(self._grow_by_one())

    async def _grow_by_one(self) -> None:
        try:
            process = await self._begin()
        except InvocationFailed as error:
            logger.error("%s", error)
            for queue in (self._short, self._long):  # a handler that does not load must not keep anybody waiting
                while queue and not self._processes:
                    if not (waiting := queue.popleft()).done():
                        waiting.set_exception(error)
            return
        finally:
            self._starting -= 1
        self._give(process)
        self._grow()

    async def _begin(self) -> Process:
        process = Process(self.function, self._settings, self._log)
        self._processes.add(process)
        try:
            await process.start()
        except BaseException:
            self._processes.discard(process)
            raise
        return process

    def _shrink(self) -> None:
        now = asyncio.get_running_loop().time()
        stale = [process for process in self._idle if now - process.idle_since >= IDLE_S]
        for process in stale[: max(0, len(self._processes) - self.function.keeps_warm)]:
            self._idle.remove(process)
            self._forget(process)

    def _forget(self, process: Process) -> None:
        self._processes.discard(process)
        self._do(process.kill())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            if self._is_open:
                call()

        timer = asyncio.get_running_loop().call_later(delay_s, run)
        self._timers.add(timer)

    def _busy(self) -> Unavailable:
        return Unavailable(f"too many calls of this kind at once ({self.function.name}): try again", retry_after_secs=RETRY_AFTER_SECS)
