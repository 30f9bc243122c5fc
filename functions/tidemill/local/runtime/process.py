"""One execution environment: a process that runs a handler, one invocation at a time, and the Runtime API it speaks to.

InvocationFailed
├── FunctionFailed      the handler raised; the process lives on
├── FunctionCrashed     the process ended, or could not begin
│   └── FunctionBroken  its handler cannot be loaded: another try is no use
└── FunctionTimedOut    it ran into its time-out and was killed
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Mapping
from typing import IO, Final
from uuid import uuid4

from tidemill.domain.errors import TidemillError
from tidemill.local.runtime.api import Connection
from tidemill.local.runtime.functions import ROOT, Function, environment

STDERR: Final = 2
"""Where a function's words go if nowhere else: never to standard output, which is for whoever started us, and may be a pipe."""
INIT_TIMEOUT_S = 10.0
"""As on Lambda. Under a heavy load an import may take seconds here, so one that is late is waited for, twice as long."""


class InvocationFailed(TidemillError):
    """The function gave no answer. The text is for the log, never for the caller of the API."""

    code = "invocation_failed"


class FunctionFailed(InvocationFailed):
    """The handler raised an error that it did not turn into an answer."""


class FunctionCrashed(InvocationFailed):
    """The process ended in the middle, or did not come up. `has_begun` False: it never saw the event, so another one may get it."""

    def __init__(self, detail: str, *, has_begun: bool = False) -> None:
        super().__init__(detail)
        self.has_begun = has_begun


class FunctionBroken(FunctionCrashed):
    """The handler cannot be imported."""


class FunctionTimedOut(InvocationFailed):
    """The handler did not end in time; its process was killed."""


class Process:
    """A process for `function`. Begin with `start()`; `alive` says whether it can take another invocation."""

    def __init__(self, function: Function, settings: Mapping[str, str], log: IO[bytes] | int | None) -> None:
        self.function = function
        self.idle_since = 0.0
        self._is_unwanted = False
        self._settings, self._log = settings, STDERR if log is None else log
        self._server: asyncio.Server | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._connections: list[Connection] = []
        self._asking: Connection | None = None
        self._ready: asyncio.Future[None] | None = None
        self._waiting: tuple[bytes, float] | None = None
        self._current_id = ""
        self._answer: asyncio.Future[bytes] | None = None
        self._exit_watch: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Does the process run? Asks the system, which knows before the event loop does."""
        return self._child is not None and self._child.returncode is None and not _has_exited(self._child.pid)

    @property
    def pid(self) -> int | None:
        """Its process id until it is known to have ended."""
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    async def start(self) -> None:
        """Returns once the handler is imported and asks for work. FunctionCrashed if it never does; nothing runs then."""
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._server = await loop.create_server(self._connect, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        try:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "tidemill.local.watched", "awslambdaric", self.function.handler,
                stdin=asyncio.subprocess.PIPE, stdout=self._log, stderr=self._log, cwd=ROOT, start_new_session=True,
                env=environment(self.function, f"{host}:{port}", self._settings),
            )  # fmt: skip
            self._exit_watch = asyncio.create_task(self._watch_exit(self._child))
            if self._is_unwanted:
                raise FunctionCrashed(f"{self.function.name}: it is not wanted any more")
            async with asyncio.timeout(2 * INIT_TIMEOUT_S):
                await self._ready
        except TimeoutError:
            await self.kill()
            raise FunctionCrashed(f"{self.function.name}: did not begin within {2 * INIT_TIMEOUT_S:g} s") from None
        except BaseException:
            await self.kill()
            raise

    async def invoke(self, event: bytes) -> bytes:
        """What the handler returned, as JSON. InvocationFailed otherwise. One at a time."""
        if not self.alive:
            raise FunctionCrashed(f"{self.function.name}: its process has ended")
        assert self._answer is None, "a process takes one invocation at a time"
        self._answer = asyncio.get_running_loop().create_future()
        self._current_id = str(uuid4())
        self._waiting = (event, time.time() + self.function.timeout_s)
        if self._asking is not None:
            self._hand_out(self._asking)
        try:
            async with asyncio.timeout(self.function.timeout_s):
                return await self._answer
        except TimeoutError:
            await self.kill()
            raise FunctionTimedOut(f"{self.function.name}: ran longer than {self.function.timeout_s:g} s and was ended") from None
        except asyncio.CancelledError:
            await self.kill()  # nobody knows what it is doing now
            raise
        finally:
            self._answer = self._waiting = None
            self._current_id = ""

    async def kill(self) -> None:
        """End the process at once and free its port; one that is being started too."""
        self._is_unwanted = True
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()
        if self._exit_watch is not None:
            await asyncio.shield(self._exit_watch)
        self._close()

    def on_next(self, connection: Connection) -> None:
        """The process asks for work."""
        self._asking = connection
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        if self._waiting is not None:
            self._hand_out(connection)

    def on_response(self, invocation_id: str, body: bytes) -> None:
        """The handler's answer."""
        if self._is_current(invocation_id):
            assert self._answer is not None
            self._answer.set_result(body)

    def on_error(self, invocation_id: str, kind: str) -> None:
        """The handler's error; its text and stack are in the process's own log."""
        if self._is_current(invocation_id):
            assert self._answer is not None
            self._answer.set_exception(FunctionFailed(f"{self.function.name}: raised {kind}"))

    def on_init_error(self, kind: str) -> None:
        """The handler cannot be imported."""
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(FunctionBroken(f"{self.function.name}: {self.function.handler} cannot be loaded: {kind}"))

    def on_lost(self, connection: Connection) -> None:
        """A connection is gone; the process opens another when it needs one."""
        if connection in self._connections:
            self._connections.remove(connection)
        if self._asking is connection:
            self._asking = None

    def _connect(self) -> Connection:
        connection = Connection(self)
        self._connections.append(connection)
        return connection

    def _hand_out(self, connection: Connection) -> None:
        assert self._waiting is not None
        event, deadline = self._waiting
        self._asking = self._waiting = None
        trace_id = f"Root=1-{int(time.time()):08x}-{self._current_id.replace('-', '')[:24]};Sampled=0"
        connection.hand_out(self._current_id, event, arn=self.function.arn, deadline_ms=int(deadline * 1000), trace_id=trace_id)

    def _is_current(self, invocation_id: str) -> bool:
        return self._current_id == invocation_id and self._answer is not None and not self._answer.done()

    async def _watch_exit(self, child: asyncio.subprocess.Process) -> None:
        code = await child.wait()
        has_begun = self._answer is not None and self._waiting is None
        for waiting in (self._ready, self._answer):
            if waiting is not None and not waiting.done():
                waiting.set_exception(FunctionCrashed(f"{self.function.name}: its process ended with {code}", has_begun=has_begun))
        self._close()

    def _close(self) -> None:
        for connection in self._connections:
            connection.close()
        if self._server is not None:
            self._server.close()
            self._server = None


def _has_exited(pid: int) -> bool:
    """Has this child of ours ended, whether or not anybody has taken note of it yet?"""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
    except AttributeError:  # not on every system; then the event loop finds out a moment later
        return False
