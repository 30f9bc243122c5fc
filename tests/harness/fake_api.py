"""An API that answers what a test tells it to, and remembers what it was asked."""

import json
from collections.abc import Callable
from typing import Any

import httpx

from tidemill.client.api import Client
from tidemill.client.retry import Breaker, RetryRule
from tidemill.client.transport import Chance, Transport

URL = "http://api.test"
KEY = "tm_test_k1_" + "topsecret"
JOB_ID = "01a228ea-6d51-7a89-8421-7067d6a32154"

Reply = Callable[[httpx.Request], httpx.Response] | httpx.Response | Exception


def job(**fields: Any) -> dict[str, Any]:
    return {"id": JOB_ID, "job_type": "x", "queue": "default", "state": "queued", "run_at": "2027-01-31T09:00:00Z"} | fields


def problem(status: int, code: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    body = {
        "type": "about:blank",
        "title": "T",
        "status": status,
        "detail": f"{code} it is",
        "code": code,
        "errors": [],
        "request_id": "r-1",
    }
    return httpx.Response(status, json=body | more, headers=headers)


def unavailable(retry_after: int | None = None) -> httpx.Response:
    return problem(503, "unavailable", {"retry-after": str(retry_after)} if retry_after is not None else None)


class FakeApi(httpx.BaseTransport):
    """Gives its replies in turn, the last one for ever."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, httpx.Response):
            return httpx.Response(reply.status_code, content=reply.content, headers=reply.headers)
        return reply(request)

    def body(self, position: int = -1) -> Any:
        return json.loads(self.requests[position].content)


def client_of(api: FakeApi, *, waits: list[float] | None = None, retries: int = 4, **options: Any) -> Client:
    """A client that does not sleep: it notes how long it would have."""
    made = Client(URL, KEY, transport=api, **options)
    made.close()
    made._transport = Transport(
        URL,
        KEY,
        carrier=api,
        rule=RetryRule(retries=retries),
        breaker=options.get("breaker") or Breaker(threshold=1_000),
        chance=Chance(sleep=(waits if waits is not None else []).append, roll=lambda: 0.5),
    )
    return made
