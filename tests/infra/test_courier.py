"""The courier on AWS: what it asks of the scheduler, what it sends, and that a failure of either says no more than its kind."""

import io
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

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


def test_it_makes_one_call_of_the_service_and_takes_its_answer(sent: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is the vendor's own; the stub holds the call to the service's model. The role may make this call and no other."""
    for name, value in {"AWS_DEFAULT_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(name, value)
    courier.client.cache_clear()
    client, body = courier.client(), json.dumps({"calls": [], "counts": {"delivered": 1}}).encode()
    called: list[str] = []
    client.meta.events.register(
        "before-parameter-build.*.*", lambda model, **_: called.append(f"{model.service_model.service_id}:{model.name}")
    )
    answer = {"StatusCode": 200, "Payload": StreamingBody(io.BytesIO(body), len(body))}
    try:
        with Stubber(client) as stub:
            stub.add_response("invoke", answer, {"FunctionName": "tidemill-dev-scheduler", "Payload": ANY})
            assert courier.handler({}, Context()) == {"delivered": 1}
            stub.assert_no_pending_responses()
        assert called == ["Lambda:Invoke"]
        config = client.meta.config
        assert (config.read_timeout, config.retries["total_max_attempts"]) == (15, 1)  # a call is never made twice, and ends before we do
    finally:
        courier.client.cache_clear()
        boto3.DEFAULT_SESSION = None


def test_calls_that_were_given_up_are_a_metric_and_others_are_none(
    sent: list[Call], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMILL_STAGE", "dev")
    for counts, told in (({"delivered": 3, "again": 1, "failed": 0}, []), ({"failed": 2}, [2])):
        service = Lambda({"calls": [], "counts": counts})
        monkeypatch.setattr(courier, "client", lambda service=service: service)
        courier.courier.cache_clear()
        courier.handler({}, Context())
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
        assert [line["WebhookCallsFailed"] for line in lines] == told
