"""Sends one request and brings back JSON or one of our errors; tries again where that is safe."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tidemill.client import problems
from tidemill.client.problems import CircuitOpen, PoolClosed, PoolExhausted, UnexpectedAnswer, Unreachable
from tidemill.client.retry import Breaker, RetryRule
from tidemill.domain import keys
from tidemill.domain.errors import Fault, Invalid, QueueFull, Throttled, TidemillError, Unavailable

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECTIONS: Final = 100
ADDRESS_RULE: Final = "must be http(s)://host[:port] of the API, without user or query"


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `repeatable`: carried out twice it leaves the same as once. `waits_ms`: how long the server may hold it.

    `is_tried_once`: the caller repeats it, not the transport.
    """

    method: str
    path: str
    body: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    repeatable: bool = True
    waits_ms: int = 0
    is_tried_once: bool = False


@dataclass(frozen=True, slots=True)
class Chance:
    """Clock, sleep and chance of a transport, so that tests need none."""

    sleep: Callable[[float], None] = time.sleep
    roll: Callable[[], float] = random.random


class Transport:
    """A pool of connections with retry rule and breaker. Thread-safe; loads httpx when it is made.

    What is tried again: requests that never left (no connection) and 429 always; 502, 503, 504 and broken connections
    only for repeatable calls. An open circuit is not waited for.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        rule: RetryRule | None = None,
        breaker: Breaker | None = None,
        chance: Chance | None = None,
        carrier: httpx.BaseTransport | None = None,
    ) -> None:
        import httpx

        from tidemill.version import __version__

        self._errors = httpx
        self._rule, self._breaker, self._chance = rule or RetryRule(), breaker or Breaker(), chance or Chance()
        self._timeout = timeout
        self._http = httpx.Client(
            base_url=_checked_url(url),
            headers={
                "authorization": f"Bearer {_checked_key(api_key)}",
                "accept": "application/json",
                "user-agent": f"tidemill-python/{__version__}",
            },
            timeout=timeout,
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=20.0),
            transport=carrier,
            verify=_trust(url),
        )

    @property
    def url(self) -> str:
        """Where it sends to."""
        return str(self._http.base_url)

    def become(self, token: str) -> None:
        """Later requests carry this token."""
        self._http.headers["authorization"] = f"Bearer {_checked_key(token)}"

    @property
    def is_failing(self) -> bool:
        """True while the circuit is open: the next call is a probe, or is not sent at all."""
        return self._breaker.is_open

    def close(self) -> None:
        """Closes the connections; calls under way and later ones raise Unreachable."""
        self._http.close()

    def send(self, call: Call) -> Any:
        """The answer's JSON (None for an empty one). Raises a TidemillError; its `tries` says how often it was sent."""
        content = None if call.body is None else encoded(call.body)
        tries = 0
        while True:
            tries += 1
            try:
                return self._once(call, content)
            except TidemillError as error:
                if tries > 1:
                    error.add_note(f"tried {tries} times")
                wait = self._wait(call, error, tries)
                if wait is None:
                    raise
            self._chance.sleep(wait)

    def _wait(self, call: Call, error: TidemillError, tries: int) -> float | None:
        if call.is_tried_once:
            return None
        match error:
            case CircuitOpen() | PoolClosed():
                return None
            case Unreachable() if error.maybe_applied and not call.repeatable:
                return None
            case Throttled() | QueueFull() | Unreachable():
                pass
            case Unavailable() if call.repeatable:
                pass
            case _:
                return None
        retry_after = None if isinstance(error, Unreachable) else error.retry_after_secs
        return self._rule.wait(tries, retry_after, self._chance.roll())

    def _once(self, call: Call, content: bytes | None) -> Any:
        self._breaker.admit()
        try:
            status, headers, body = self._request(call, content)
        except BaseException as cause:
            if isinstance(cause, Unreachable) and not isinstance(cause, PoolExhausted | PoolClosed):
                self._breaker.failed()
            else:
                self._breaker.gave_up()
            raise
        if status < 300:
            self._breaker.succeeded()
            return _decoded(body)
        error = problems.from_answer(status, headers, body)
        if isinstance(error, Unavailable):
            self._breaker.failed(error.retry_after_secs)
        else:
            self._breaker.succeeded()
        raise error

    def _request(self, call: Call, content: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        try:
            response = self._http.request(
                call.method,
                call.path,
                content=content,
                params=dict(call.params) or None,
                headers={"content-type": "application/json"} if content is not None else None,
                timeout=self._timeout + call.waits_ms / 1000,
            )
        except self._errors.PoolTimeout:
            raise PoolExhausted(CONNECTIONS) from None
        except (self._errors.ConnectError, self._errors.ConnectTimeout) as error:
            raise Unreachable("the API cannot be reached: nothing was sent", maybe_applied=False) from error
        except self._errors.TransportError as error:
            kind = type(error).__name__
            raise Unreachable(f"no answer ({kind}): the request may have been carried out", maybe_applied=True) from error
        except RuntimeError as error:
            if not self._http.is_closed:
                raise
            raise PoolClosed from error
        return response.status_code, response.headers, response.content


def encoded(value: Any) -> bytes:
    """`value` as JSON. Invalid if it is none: NaN, infinities, other types, cycles, more than Python's depth."""
    try:
        text = keys.compact_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid([Fault((), f"is no JSON value: {error}")]) from None
    # Lone surrogates, which UTF-8 does not have, travel escaped, so that the API can say in which field they are.
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def _decoded(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UnexpectedAnswer("the answer is not JSON: does the address belong to a tidemill API?") from None


def _trust(url: str) -> ssl.SSLContext | bool:
    """Whose certificates count. Where nothing is encrypted nobody's: to load them takes 60 ms, most of what a command takes."""
    if not url.startswith("http://"):
        return True
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise Invalid([Fault(("url",), ADDRESS_RULE)])
    return url.rstrip("/")


def _checked_key(api_key: str) -> str:
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise Invalid([Fault(("api_key",), "must be an API key of the form tm_<stage>_<id>_<secret>")])
    return api_key
