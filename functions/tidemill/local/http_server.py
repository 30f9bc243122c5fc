"""The HTTP server in front of the gateway: uvicorn on a socket that is bound before anything else is begun."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from tidemill.local.options import HOST, CannotStart

STOP_TIMEOUT_S = 2


def bind(port: int) -> socket.socket:
    """A bound socket on the loopback address; connections wait in it until somebody serves. CannotStart if the port is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, port))
        sock.listen(1)  # taken for good: a second `bind` would succeed until somebody listens
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(f"port {port} on {HOST} is in use; choose another with --port, or --port 0 for any") from None
        raise CannotStart(f"port {port} on {HOST} cannot be used: {error.strerror}; choose another with --port") from None
    return sock


class HttpServer:
    """Serves an ASGI application."""

    def __init__(self, app: Any, sock: socket.socket) -> None:
        config = uvicorn.Config(
            app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            timeout_keep_alive=75, timeout_graceful_shutdown=STOP_TIMEOUT_S, backlog=1024,
        )  # fmt: skip
        self._server = _Quiet(config)
        self._sock = sock
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when requests are served."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._sock]))
        begun = asyncio.create_task(self._server.begun.wait())
        await asyncio.wait({self._task, begun}, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            begun.cancel()
            await self._task
            raise CannotStart("the HTTP server did not begin")

    async def ended(self) -> None:
        """Returns when it has ended, by itself or because it was asked to."""
        if self._task is not None:
            await asyncio.shield(self._task)

    def stop_accepting(self) -> None:
        """No new requests; those that run may end."""
        self._server.should_exit = True

    async def close(self) -> None:
        """Waits a moment for the requests that run, and cuts the rest off."""
        self.stop_accepting()
        if self._task is not None:
            await self._task
        self._sock.close()


class _Quiet(uvicorn.Server):
    """uvicorn without its own idea of signals; says when it has begun."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
