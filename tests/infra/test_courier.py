"""The courier on AWS: what it asks of the scheduler, what it sends, and that a failure of either says no more than its kind."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

import courier.handler as courier
from tidemill.domain.webhooks import Call, Report


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 58_000


class Lambda:
    """Stands in for the service: the scheduler's answers, in turn."""

    def __init__(self, *answers: Any, failed: bool = False) -> None:
        self.answers, self.failed, self.asked = list(answers), failed, list[dict[str, Any]]()

    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 - the service's words
        assert FunctionName == "tidemill-dev-scheduler"
        self.asked.append(json.loads(Payload)["courier"])
        told = {"FunctionError": "Unhandled"} if self.failed else {}
        return {"Payload": io.BytesIO(json.dumps(self.answers.pop(0)).encode()), **told}


CALL = Call("j", "t", "https://hooks.example.com/", {"webhook-id": "evt_j"}, "{}")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Call]]:
    calls: list[Call] = []

    def send(call: Call) -> Report:
        calls.append(call)
        return Report(call.job_id, call.lease_token, 200, None)

    monkeypatch.setenv("SCHEDULER", "tidemill-dev-scheduler")
    monkeypatch.setattr(courier, "send", send)
    courier.courier.cache_clear()
    yield calls
    courier.courier.cache_clear()


def test_it_sends_what_it_is_given_and_brings_back_how_it_went(sent: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    service = Lambda(
        {"calls": [CALL._asdict()], "counts": {}},
        {"calls": [], "counts": {"delivered": 1}},
    )
    monkeypatch.setattr(courier, "client", lambda: service)
    assert courier.handler({}, Context()) == {"delivered": 1}
    assert sent == [CALL]
    first, second = service.asked
    assert (first["take"], first["reports"]) == (16, [])
    assert second["reports"] == [{"job_id": "j", "lease_token": "t", "status": 200, "error": None, "retry_after_secs": None}]
    assert first["id"] == second["id"]


def test_a_scheduler_that_fails_is_told_by_its_kind_alone(sent: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    service = Lambda({"errorType": "OperationalError", "errorMessage": "host secret.internal"}, failed=True)
    monkeypatch.setattr(courier, "client", lambda: service)
    with pytest.raises(RuntimeError, match="the scheduler failed: OperationalError") as raised:
        courier.handler({}, Context())
    assert "secret" not in str(raised.value)
    assert sent == []
