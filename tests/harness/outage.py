"""A proxy in front of an API that can play an outage: while `is_down`, every request is answered 503 and goes no further."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import httpx

NOT_FORWARDED = {"host", "connection", "content-length", "transfer-encoding", "content-encoding", "date", "server"}


class Proxy:
    """Listens on a port of its own from the `with` on. `refused`: set once a request met the outage."""

    def __init__(self, target: str) -> None:
        self.is_down = False
        self.refused = threading.Event()
        self._http = httpx.Client(base_url=target, timeout=30, verify=False)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._http.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if proxy.is_down:
                    proxy.refused.set()
                    self._answer(503, {"content-type": "application/problem+json"}, b'{"code": "unavailable", "detail": "away"}')
                    return
                headers = {name: text for name, text in self.headers.items() if name.lower() not in NOT_FORWARDED}
                try:
                    answer = proxy._http.request(self.command, self.path, content=body, headers=headers)
                except httpx.TransportError:
                    self._answer(502, {}, b"")
                    return
                self._answer(answer.status_code, dict(answer.headers), answer.content)

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                try:
                    self.send_response(status)
                    for name, text in headers.items():
                        if name.lower() not in NOT_FORWARDED:
                            self.send_header(name, text)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True

            do_GET = do_POST = do_PATCH = do_DELETE = _forward  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
