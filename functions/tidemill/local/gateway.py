"""The gateway: an ASGI application that does what API Gateway, its authorizer and its limits do in front of the functions."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, Protocol
from uuid import uuid4

from tidemill.domain.errors import Internal, NotFound, PayloadTooLarge, TidemillError, Unavailable
from tidemill.http import paths, problem, routes
from tidemill.local import page
from tidemill.local.authorizing import Authorizing, as_unavailable
from tidemill.local.gateway_events import DEFAULT_STAGE, NotAnAnswer, Request, Response, from_answer, to_event
from tidemill.local.runtime.process import FunctionTimedOut, InvocationFailed

BODY_BYTES: Final = 10 * 1024 * 1024
TIMEOUT_S: Final = 30.0
WAITING_PATHS: Final = frozenset({"/v1/claims", "/v1/exchange", "/v1/changes"})
"""Routes that may hold a process for long on purpose (`wait_ms`)."""
_OPEN_TO_ALL: Final = frozenset({"/healthz", "/readyz"})

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Invoker(Protocol):
    """Whoever runs functions."""

    async def invoke(self, function: str, event: bytes, *, waits: bool = False) -> bytes:
        """The function's answer; InvocationFailed or Unavailable."""


class Gateway:
    """`stage`: as on AWS, any but `$default` is the first segment of every path, and stays in `rawPath`."""

    def __init__(self, invoker: Invoker, *, stage: str = DEFAULT_STAGE, timeout_s: float = TIMEOUT_S) -> None:
        self._invoker, self._stage, self._timeout_s = invoker, stage, timeout_s
        self._authorizing = Authorizing(lambda event: invoker.invoke("authorizer", event))
        self._running: set[asyncio.Task[bytes]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry. Serves http; says no to everything else."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        request_id = str(uuid4())
        try:
            response = await self._respond(scope, receive, request_id)
        except TidemillError as error:
            response = as_problem(error, request_id)
        except Exception:
            logger.exception("gateway failed, request id %s", request_id)
            response = as_problem(Internal("something went wrong on our side; the request id finds it in the log"), request_id)
        await _send(send, response)

    def forget_callers(self) -> None:
        """Ask the authorizer again about everybody."""
        self._authorizing.forget()

    async def _respond(self, scope: Scope, receive: Receive, request_id: str) -> Response:
        method, path = str(scope["method"]), str(scope["path"])
        if path == "/" and method in ("GET", "HEAD") and self._stage == DEFAULT_STAGE:
            sent = {name: value.decode("latin-1") for name, value in scope["headers"]}
            return page.response(knows=sent.get(b"if-none-match", ""), takes=sent.get(b"accept-encoding", ""))
        if self._stage != DEFAULT_STAGE and path.lstrip("/").partition("/")[0] != self._stage:
            raise NotFound("stage at", path)
        body = await _read(scope, receive)
        normal = paths.normalised(path, self._stage)
        request = Request(
            method=method,
            path=path,
            query=scope["query_string"].decode("latin-1"),
            headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]],
            body=body,
            client_ip=(scope.get("client") or ("127.0.0.1", 0))[0],
            protocol=f"HTTP/{scope['http_version']}",
        )
        event = to_event(request, request_id=request_id, stage=self._stage)
        if normal not in _OPEN_TO_ALL:
            event["requestContext"]["authorizer"] = {"lambda": await self._caller(event)}
        answer = await self._invoke(routes.function_of(method, normal), event, waits=normal in WAITING_PATHS)
        return self._checked(answer, request_id)

    async def _caller(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._authorizing.context(event)
        except TidemillError as error:
            logger.warning("authorizer: %s", error)
            raise as_unavailable(error) from error

    async def _invoke(self, function: str, event: Mapping[str, Any], *, waits: bool) -> bytes:
        """The answer, or the gateway's own time-out; what it waited for runs on, as it does on AWS."""
        encoded = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        task = asyncio.create_task(self._invoker.invoke(function, encoded, waits=waits))
        self._running.add(task)
        task.add_done_callback(self._forget)
        done, _ = await asyncio.wait({task}, timeout=self._timeout_s)
        if not done:
            raise _timed_out()
        try:
            return task.result()
        except FunctionTimedOut as error:
            logger.warning("%s", error)
            raise _timed_out() from error
        except InvocationFailed as error:
            logger.error("%s", error)
            raise Internal("something went wrong on our side; the request id finds it in the log") from error

    def _forget(self, task: asyncio.Task[bytes]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # seen: a time-out may have been answered long ago

    @staticmethod
    def _checked(answer: bytes, request_id: str) -> Response:
        try:
            return from_answer(answer)
        except NotAnAnswer as error:
            logger.error("%s, request id %s", error, request_id)
            raise Internal("something went wrong on our side; the request id finds it in the log") from error


def as_problem(error: TidemillError, request_id: str) -> Response:
    """An error as problem+json, in the same form as the functions' own."""
    headers = [("content-type", problem.CONTENT_TYPE), *problem.headers_of(error).items()]
    return Response(problem.status_of(error), headers, problem.body_of(error, request_id).encode())


def _timed_out() -> Unavailable:
    return Unavailable("no answer in time: the request may have been carried out; look before you repeat it", retry_after_secs=2)


async def _read(scope: Scope, receive: Receive) -> bytes:
    parts, size = [], 0
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if announced.isdigit() and int(announced) > BODY_BYTES:
        raise _too_large()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Unavailable("the caller left before the request was whole")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES:
            raise _too_large()
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(f"body: is over {BODY_BYTES:,} bytes, the most that the gateway takes; send less per call")


async def _send(send: Send, response: Response) -> None:
    headers = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in response.headers]
    if response.status not in (204, 304):
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
