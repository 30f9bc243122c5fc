"""The gateway's memory of who is calling."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tidemill.domain.errors import Unavailable
from tidemill.local import authorizing
from tidemill.local.authorizing import Authorizing
from tidemill.local.gateway_events import Request, to_event

SOMEBODY = {"fault": "", "principal_id": "p", "scopes": "enqueue"}


class Asked:
    """An authorizer function that counts."""

    def __init__(self, context: dict[str, Any] | None = SOMEBODY) -> None:
        self.context, self.events = context, list[dict[str, Any]]()

    async def __call__(self, event: bytes) -> bytes:
        self.events.append(json.loads(event))
        await asyncio.sleep(0)
        return json.dumps({"isAuthorized": True, "context": self.context}).encode()


def event(token: str | None) -> dict[str, Any]:
    headers = [] if token is None else [("Authorization", token)]
    return to_event(Request(method="GET", path="/v1/jobs", headers=headers), request_id="r")


def running(work: Callable[[], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await work()

    return asyncio.run(run())


def test_a_request_without_the_header_is_nobodys_and_nobody_is_asked() -> None:
    asked = Asked()
    assert running(lambda: Authorizing(asked).context(event(None))) == {"fault": "unauthenticated"}
    assert asked.events == []


def test_an_answer_is_kept_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()

    async def work() -> None:
        memory = Authorizing(asked)
        for _ in range(3):
            assert await memory.context(event("Bearer a")) == SOMEBODY
        assert len(asked.events) == 1
        now = asyncio.get_running_loop().time()
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now + authorizing.KEPT_S + 1)
        await memory.context(event("Bearer a"))
        monkeypatch.undo()

    running(work)
    assert len(asked.events) == 2


def test_the_memory_is_bounded_and_the_longest_unused_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizing, "KEPT_ANSWERS", 3)
    asked = Asked()

    async def work() -> None:
        memory = Authorizing(asked)
        for token in ("a", "b", "c", "a", "d", "a", "b"):
            await memory.context(event(token))

    running(work)
    assert [asked["identitySource"][0] for asked in asked.events] == ["a", "b", "c", "d", "b"]


def test_calls_at_once_ask_once() -> None:
    asked = Asked()

    async def work() -> Any:
        memory = Authorizing(asked)
        return await asyncio.gather(*(memory.context(event("a")) for _ in range(10)))

    assert running(work) == [SOMEBODY] * 10
    assert len(asked.events) == 1


def test_a_wrong_key_is_remembered_too() -> None:
    asked = Asked({"fault": "unauthenticated"})

    async def work() -> None:
        memory = Authorizing(asked)
        await memory.context(event("a"))
        await memory.context(event("a"))

    running(work)
    assert len(asked.events) == 1


def test_a_fault_of_the_moment_is_not_remembered() -> None:
    asked = Asked({"fault": "unavailable"})

    async def work() -> None:
        memory = Authorizing(asked)
        assert (await memory.context(event("a")))["fault"] == "unavailable"
        asked.context = SOMEBODY
        assert await memory.context(event("a")) == SOMEBODY

    running(work)


def test_nonsense_from_the_authorizer_lets_nobody_in() -> None:
    with pytest.raises(Unavailable):
        running(lambda: Authorizing(Asked(None)).context(event("a")))
