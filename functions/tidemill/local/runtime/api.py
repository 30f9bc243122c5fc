"""The Lambda Runtime API for one process: `next`, `response`, `error`, `init/error` on a loopback port of its own.

Facts from the vendor's page "Using the Lambda runtime API" (version 2018-06-01). Written on the bare protocol because
every request of the local server passes here twice.
"""

import asyncio
import json
from typing import Any, Protocol, cast

import httptools

PREFIX = b"/2018-06-01/runtime/"
ANSWER_BYTES = 6 * 1024 * 1024
"""What Lambda lets a function answer with."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Listener(Protocol):
    """What hears of the process's calls."""

    def on_next(self, connection: "Connection") -> None:
        """It asks for work; answer with `connection.hand_out`, now or later."""

    def on_response(self, invocation_id: str, body: bytes) -> None:
        """What the handler returned, as JSON."""

    def on_error(self, invocation_id: str, kind: str) -> None:
        """The handler raised an error of this type."""

    def on_init_error(self, kind: str) -> None:
        """The handler could not even be imported."""

    def on_lost(self, connection: "Connection") -> None:
        """The connection is closed."""


class Connection(asyncio.Protocol):
    """One connection of the process."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url, self._body, self._size, self._headers = b"", list[bytes](), 0, dict[bytes, bytes]()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio calls this. It has switched Nagle's algorithm off already."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """asyncio calls this."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._reply(b"400 Bad Request", b"{}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """asyncio calls this."""
        self._transport = None
        self._listener.on_lost(self)

    def close(self) -> None:
        """End the connection; a `next` that waits on it ends with it."""
        if self._transport is not None:
            self._transport.abort()

    def hand_out(self, invocation_id: str, event: bytes, *, arn: str, deadline_ms: int, trace_id: str) -> None:
        """Answer the waiting `next` with an invocation."""
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            f"Lambda-Runtime-Aws-Request-Id: {invocation_id}\r\nLambda-Runtime-Deadline-Ms: {deadline_ms}\r\n"
            f"Lambda-Runtime-Invoked-Function-Arn: {arn}\r\nLambda-Runtime-Trace-Id: {trace_id}\r\n"
            f"Content-Length: {len(event)}\r\n\r\n"
        )
        if self._transport is not None:
            self._transport.write(head.encode("ascii") + event)

    def on_message_begin(self) -> None:
        """httptools calls this and the others below."""
        self._url, self._body, self._size, self._headers = b"", [], 0, {}

    def on_url(self, url: bytes) -> None:
        """A part of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The body comes next; curl may wait to be asked for it."""
        if self._headers.get(b"expect", b"").lower() == b"100-continue" and self._transport is not None:
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        """A part of the body; what is too long is counted, not kept."""
        self._size += len(body)
        if self._size <= ANSWER_BYTES:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        parts = self._url.removeprefix(PREFIX).decode("ascii", "replace").split("/")
        match (self._parser.get_method(), parts):
            case (b"GET", ["invocation", "next"]):
                self._listener.on_next(self)
                return
            case (b"POST", ["invocation", invocation_id, "response"]) if self._size > ANSWER_BYTES:
                self._listener.on_error(invocation_id, "Function.ResponseSizeTooLarge")  # a 413 would end the process
            case (b"POST", ["invocation", invocation_id, "response"]):
                self._listener.on_response(invocation_id, b"".join(self._body))
            case (b"POST", ["invocation", invocation_id, "error"]):
                self._listener.on_error(invocation_id, self._error_type())
            case (b"POST", ["init", "error"]):
                self._listener.on_init_error(self._error_type())
            case _:
                self._reply(b"404 Not Found", b"{}")
                return
        self._reply(b"202 Accepted", b'{"status":"OK"}')

    def _error_type(self) -> str:
        try:
            return str(json.loads(b"".join(self._body))["errorType"])
        except (ValueError, KeyError, TypeError):
            return "Unknown"

    def _reply(self, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        if self._transport is not None:
            self._transport.write(head + body)
