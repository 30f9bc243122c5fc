"""`tidemill dev`: database, functions, gateway, ticks and a worker, begun in the order they need each other and ended in reverse.

Every part is tied to this process by a pipe or a connection, so that nothing outlives it, however it ends.
"""

import asyncio
import contextlib
import io
import logging
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from tidemill.local import founding, postgres
from tidemill.local.announce import Ready
from tidemill.local.code_watch import CodeWatch
from tidemill.local.couriers import LocalCourier
from tidemill.local.data_folder import LocalPostgresError
from tidemill.local.demo_worker import DemoWorker
from tidemill.local.gateway import Gateway
from tidemill.local.http_server import HttpServer, bind
from tidemill.local.options import HOST, BrokeDown, CannotStart, Options
from tidemill.local.page_builder import PageBuilder
from tidemill.local.runtime.functions import ROOT, functions
from tidemill.local.runtime.process import InvocationFailed
from tidemill.local.runtime.runtime import Runtime
from tidemill.local.ticks import Ticks

WATCH_S: Final = 0.25
RESTARTS: Final = 5
_FIRST: Final = ("authorizer", "enqueue", "claims")

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Instance:
    """`start()` once, then `broken()` says when it cannot go on, `close()` ends it at any point, also in the middle of a start."""

    def __init__(self, options: Options, *, log_name: str | None = None) -> None:
        """`log_name`: the file in the data folder that takes what the parts say; None = our own standard error does."""
        self.options = options
        self.server: postgres.Server | None = None
        self.runtime: Runtime | None = None
        self.worker: DemoWorker | None = None
        self.log_path: Path | None = None
        self._log_name = log_name
        self._log: IO[bytes] | None = None
        self._sock: socket.socket | None = None
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="dev")
        self._steps: list[asyncio.Future[Any]] = []
        self._http: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Ready:
        """Everything runs and answers. CannotStart says what is in the way; call `close()` then too."""
        began = time.monotonic()
        if not (ROOT / "enqueue" / "handler.py").is_file():
            raise CannotStart(f"the functions are not in {ROOT}; run tidemill dev from a checkout of the project, or install its wheel")
        self._sock = sock = bind(self.options.port)
        url = f"http://{HOST}:{sock.getsockname()[1]}"
        loop = asyncio.get_running_loop()
        prepared = loop.run_in_executor(self._threads, founding.prepare, self.options.folder)
        try:
            server, dsn = await self._wait_for_database(self._make_server)
            self._open_log(server.data_dir)
            self.runtime = runtime = Runtime(functions(), self._settings(dsn), self._log)
            warm = self._keep(runtime.warm(*_FIRST))  # they take as long as the server does, and need it only when they are called
            await self._wait_for_database(server.run)
            if server.dsn != dsn:
                raise CannotStart(f"port {server.port} on {HOST} was taken in the very moment; start again")
            found = loop.run_in_executor(self._threads, founding.found, server.data_dir, dsn, await prepared, url)
            credentials, _, _ = await asyncio.gather(found, self._wait_for_database(server.settle), warm)
        except LocalPostgresError as error:
            raise CannotStart(error.detail) from error
        except InvocationFailed as error:
            raise BrokeDown(error.detail) from error
        self._http = HttpServer(Gateway(runtime), sock)
        await self._http.start()
        self._keep(self._watch_database(server))
        self._keep(self._go_on(runtime))
        self._keep(CodeWatch(on_terminal=self._log_name is not None).run())
        if self.options.builds_page:
            self._keep(PageBuilder().run())
        if self.options.has_worker:
            settings = {**self._settings(dsn), "TIDEMILL_URL": url, "TIDEMILL_API_KEY": credentials.api_key}
            self.worker = DemoWorker(settings, self._log, handlers=self.options.handlers, app=self.options.app)
            self._keep(self.worker.run())
        return Ready(
            credentials, time.monotonic() - began, server.data_dir, server.ephemeral, self.log_path,
            self.options.has_worker, self.options.ticks,
        )  # fmt: skip

    async def broken(self) -> None:
        """Returns never; raises when a part ended for good."""
        assert self._http is not None
        await asyncio.gather(*self._tasks, self._http.ended())

    async def close(self) -> None:
        """Ends everything: no new requests, then the worker and the functions, the database last. Idempotent."""
        for task in self._tasks:
            task.cancel()
        if self._http is not None:
            self._http.stop_accepting()
        if self.server is not None and not all(step.done() for step in self._steps):
            self.server.give_up()
        await asyncio.gather(*self._steps, return_exceptions=True)  # it is about to end anyway
        ends = [part.stop() for part in (self.worker,) if part] + [part.close() for part in (self.runtime, self._http) if part]
        await asyncio.gather(*ends)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.server is not None:
            await asyncio.get_running_loop().run_in_executor(self._threads, self.server.stop)
        for opened in (self._log, self._sock):
            if opened is not None:
                opened.close()
        self._threads.shutdown()

    def end_now(self) -> None:
        """In one go, without waiting for anything: every process that comes from this one is killed, a temporary folder removed."""
        server = self.server
        if server is not None and server.pid is not None:
            os.kill(server.pid, signal.SIGQUIT)  # its own helpers end with it; what is left of a temporary folder its guard removes
        for pid in children():
            if server is None or pid not in (server.pid, server.guard_pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if server is not None and server.ephemeral and server.pid is None:
            shutil.rmtree(server.data_dir, ignore_errors=True)

    def _make_server(self) -> tuple[postgres.Server, str]:
        """In a thread: the server that is not started yet, and the address it is going to have."""
        durable = self.options.folder is not None
        self.server = postgres.Server(self.options.folder, port=0, settings=self.options.server_settings, fsync=durable)
        return self.server, self.server.promise()

    async def _wait_for_database(self, step: Callable[[], T]) -> T:
        """Runs the step in a thread. It goes on when this is cancelled; `close()` ends it, and waits for it."""
        step_done = asyncio.get_running_loop().run_in_executor(self._threads, step)
        self._steps.append(step_done)
        return await asyncio.shield(step_done)

    async def _watch_database(self, server: postgres.Server) -> None:
        """A server that ended is started again on the same port, as a managed database would be."""
        restarts = 0
        while True:
            await asyncio.sleep(WATCH_S)
            if server.pid is not None:
                continue
            restarts += 1
            port = server.port
            logger.warning("the database server ended; starting it again")
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, server.restart)
            except LocalPostgresError as error:
                raise BrokeDown(f"the database server ended and does not start again: {error.detail}") from error
            if restarts > RESTARTS or server.port != port:
                raise BrokeDown(f"the database server ends again and again; its words are in {server.log_path}")

    async def _go_on(self, runtime: Runtime) -> None:
        """What nobody has to wait for: the other functions, then the ticks."""
        try:
            await runtime.warm()
        except InvocationFailed as error:
            logger.error("%s", error)
        if self.options.ticks:
            await asyncio.gather(Ticks(runtime).run(), LocalCourier(runtime).run())
        await asyncio.get_running_loop().create_future()

    def _open_log(self, folder: Path) -> None:
        if self._log_name is not None:
            self.log_path = folder / self._log_name
            self._log = self.log_path.open("wb", buffering=0)
            logging.getLogger().addHandler(logging.StreamHandler(io.TextIOWrapper(self._log, write_through=True)))

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._tasks.append(asyncio.create_task(work))
        return self._tasks[-1]

    def _settings(self, dsn: str) -> Mapping[str, str]:
        return {
            "TIDEMILL_STAGE": founding.STAGE,
            "TIDEMILL_DATABASE_URL": dsn,
            "TIDEMILL_LOG_LEVEL": self.options.log_level,
            "TIDEMILL_TICK_BUDGET_MS": str(self.options.tick_budget_ms),
        }


def children() -> list[int]:
    """The processes that this one has begun and that have not ended; [] where the system does not tell."""
    found: list[int] = []
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found
