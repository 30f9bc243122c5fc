"""What a call may raise: the errors of `tidemill.domain.errors`, found by `code`, and five of the client's own.

Unavailable
└── Unreachable         no answer; `maybe_applied` says whether the request may have been carried out all the same
    ├── CircuitOpen     not even tried: the last calls all failed; `retry_after_secs` says when the next probe goes out
    └── PoolExhausted   not even tried: all of this client's connections are in use
UnexpectedAnswer        whatever answered is not this API
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tidemill.domain import errors
from tidemill.domain.errors import Fault, TidemillError, Unavailable

_CODED: Final = {
    cls.code: cls
    for cls in (
        errors.Invalid, errors.MalformedBody, errors.UnsupportedMediaType, errors.PayloadTooLarge, errors.Unauthenticated,
        errors.Forbidden, errors.NotFound, errors.MethodNotAllowed, errors.InvalidTransition, errors.LeaseLost, errors.UniqueConflict,
        errors.IdempotencyConflict, errors.QueueNotEmpty, errors.PlanDrifted, errors.QueueFull, errors.Throttled, errors.Unavailable,
        errors.Internal,
    )
}  # fmt: skip

# What gateways and load balancers answer in the API's place has a status and no code.
_BY_STATUS: Final[Mapping[int, type[TidemillError]]] = {
    400: errors.MalformedBody,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    409: errors.Conflict,
    413: errors.PayloadTooLarge,
    415: errors.UnsupportedMediaType,
    422: errors.Invalid,
    429: errors.Throttled,
    500: errors.Internal,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}

# Attributes that these classes promise; an answer that does not tell them leaves them empty.
_PROMISED: Final = ("kind", "name", "job_id", "holder_id", "state", "event", "to")


class Unreachable(Unavailable):
    """No answer came. `maybe_applied`: the request was on its way, so look before you repeat what must not happen twice."""

    def __init__(self, detail: str, *, maybe_applied: bool, retry_after_secs: int = 1) -> None:
        super().__init__(detail, retry_after_secs=retry_after_secs)
        self.maybe_applied = maybe_applied


class CircuitOpen(Unreachable):
    """Not sent: the API has failed so often in a row that calls wait for a probe to succeed."""

    def __init__(self, *, retry_after_secs: int) -> None:
        super().__init__(
            f"the API has not answered for a while: next try in {retry_after_secs} s; nothing was sent",
            maybe_applied=False,
            retry_after_secs=retry_after_secs,
        )


class PoolExhausted(Unreachable):
    """Not sent: more threads call at once than the client has connections. It says nothing about the API."""

    def __init__(self, connections: int) -> None:
        super().__init__(f"all {connections} connections of this client are in use: nothing was sent", maybe_applied=False)


class PoolClosed(Unreachable):
    """The client was closed before the answer came."""

    def __init__(self) -> None:
        super().__init__("this client is closed: make another one", maybe_applied=True)


class UnexpectedAnswer(TidemillError):
    """An answer that this API does not give: a redirect, a page of HTML, another service's JSON."""

    code = "unexpected_answer"


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> TidemillError:
    """The error that this answer (status ≥ 300) means. `request_id` and `status` are attributes and in its note."""
    problem = _object(body)
    code = str(problem.get("code", ""))
    cls = _CODED.get(code) or _BY_STATUS.get(status) or (errors.Internal if status >= 500 else UnexpectedAnswer)
    detail = str(problem.get("detail") or problem.get("title") or problem.get("message") or f"HTTP status {status}")
    if 300 <= status < 400:
        detail = f"HTTP status {status}, a redirect: give the client the API's own address"
    error = cls.__new__(cls)
    TidemillError.__init__(error, detail)
    facts: dict[str, Any] = {name: str(problem.get(name) or "") for name in _PROMISED}
    facts |= {"status": status, "request_id": str(problem.get("request_id") or headers.get("x-request-id") or "")}
    if isinstance(error, errors.Invalid):
        facts["faults"] = _faults(problem.get("errors"))
    if status == 429 or status >= 500:
        facts["retry_after_secs"] = retry_after_secs(headers)
    vars(error).update(facts)
    error.add_note(f"HTTP {status}, request id {facts['request_id'] or 'unknown'}")
    return error


def retry_after_secs(headers: Mapping[str, str]) -> int | None:
    """What `Retry-After` asks for in whole seconds; None without one. The HTTP-date form is not one that the API sends."""
    text = headers.get("retry-after", "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _faults(given: Any) -> tuple[Fault, ...]:
    items = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    return tuple(
        Fault(tuple(part for part in item.get("loc") or () if isinstance(part, str | int)), str(item.get("msg", ""))) for item in items
    )
