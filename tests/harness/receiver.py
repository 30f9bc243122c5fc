"""A receiver of webhooks on this machine: real HTTP, answers as it is told, keeps what came, and verifies it by its own reckoning."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Got:
    """A call that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed_by(self, secret: str) -> bool:
        """As the receiver's side of Standard Webhooks is written down: any one signature must match."""
        prefix, _, key = secret.partition("_")
        assert prefix == "whsec"
        content = b".".join([self.id.encode(), self.headers["webhook-timestamp"].encode(), self.body])
        wanted = base64.b64encode(hmac.new(base64.b64decode(key), content, hashlib.sha256).digest()).decode()
        given = [one.partition(",") for one in self.headers["webhook-signature"].split(" ")]
        return any(version == "v1" and hmac.compare_digest(signature, wanted) for version, _, signature in given)


def status(code: int, body: bytes = b"ok", **headers: str) -> Answer:
    """An answer of this status."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@dataclass
class Receiver:
    """`answers`: how the next calls are answered, in turn; then 200."""

    answers: list[Answer] = field(default_factory=list)

    def __enter__(self) -> Receiver:
        self.calls: queue.Queue[Got] = queue.Queue()
        self.stopping = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.calls.put(Got(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                answer = receiver.answers.pop(0) if receiver.answers else status(200)
                with suppress(OSError):
                    answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/x?y=1"

    def got(self) -> list[Got]:
        """What came since the last time."""
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self.calls.get_nowait())
        return found
