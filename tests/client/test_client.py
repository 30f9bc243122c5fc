"""`Client` against an API that answers what the test says: retries, errors, pages, fields."""

import json
import logging
import ssl
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

import tidemill
from harness.fake_api import JOB_ID, KEY, URL, FakeApi, client_of, job, problem, unavailable
from tidemill.client import CircuitOpen, Client, UnexpectedAnswer, Unreachable
from tidemill.client.retry import Breaker
from tidemill.domain import errors

CREATED = httpx.Response(201, json={"job": job(), "deduplicated": False})
REFUSED = httpx.ConnectError("refused")
BROKEN = httpx.RemoteProtocolError("Server disconnected without sending a response.")


def test_enqueue_sends_the_fields_and_brings_the_job() -> None:
    api = FakeApi(CREATED)
    with client_of(api) as client:
        made = client.enqueue(
            "email.send",
            {"to": "a"},
            queue="mail",
            run_at=datetime(2027, 1, 31, 10, tzinfo=UTC),
            timeout_ms=timedelta(seconds=2),
            tags=("a",),
        )
    assert (made.id, made.job.state, made.deduplicated) == (JOB_ID, "queued", False)
    assert made.job.run_at == datetime(2027, 1, 31, 9, tzinfo=UTC)
    sent = api.body()
    assert sent.pop("idempotency_key").startswith("auto:")
    assert sent == {
        "job_type": "email.send", "payload": {"to": "a"}, "queue": "mail", "run_at": "2027-01-31T10:00:00Z",
        "timeout_ms": 2_000, "tags": ["a"],
    }  # fmt: skip
    request = api.requests[0]
    assert (request.method, str(request.url)) == ("POST", f"{URL}/v1/jobs")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"


def test_repeat_after_a_lost_answer_carries_the_same_key_and_is_no_duplicate() -> None:
    def stored(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"job": job(idempotency_key=json.loads(request.content)["idempotency_key"]), "deduplicated": True})

    api = FakeApi(BROKEN, unavailable(), stored)
    with client_of(api) as client:
        made = client.enqueue("x")
    assert len({api.body(n)["idempotency_key"] for n in range(3)}) == 1
    assert not made.deduplicated


def test_key_of_the_caller_is_kept_and_its_match_is_told() -> None:
    api = FakeApi(httpx.Response(200, json={"job": job(idempotency_key="mine"), "deduplicated": True}))
    with client_of(api) as client:
        assert client.enqueue("x", idempotency_key="mine").deduplicated
    assert api.body()["idempotency_key"] == "mine"


@pytest.mark.parametrize("fault", [BROKEN, httpx.ReadTimeout("slow"), unavailable(), httpx.Response(504)])
def test_enqueue_without_a_key_is_not_repeated_when_it_may_have_happened(fault: Any) -> None:
    api = FakeApi(fault)
    with client_of(api, safe_enqueue=False) as client, pytest.raises(errors.Unavailable) as caught:
        client.enqueue("x")
    assert len(api.requests) == 1
    assert getattr(caught.value, "maybe_applied", True)


@pytest.mark.parametrize("fault", [REFUSED, httpx.ConnectTimeout("slow"), problem(429, "throttled"), problem(429, "queue_full")])
def test_what_never_took_effect_is_repeated_without_a_key_too(fault: Any) -> None:
    api = FakeApi(fault, fault, CREATED)
    with client_of(api, safe_enqueue=False) as client:
        assert client.enqueue("x").id == JOB_ID
    assert len(api.requests) == 3


def test_operator_s_retry_is_never_repeated_by_itself() -> None:
    api = FakeApi(unavailable())
    with client_of(api) as client, pytest.raises(errors.Unavailable):
        client.retry(JOB_ID)
    assert len(api.requests) == 1


def test_waits_grow_are_jittered_and_end() -> None:
    waits: list[float] = []
    with client_of(FakeApi(unavailable()), waits=waits, retries=3) as client, pytest.raises(errors.Unavailable) as caught:
        client.get_job(JOB_ID)
    assert waits == pytest.approx([0.05, 0.1, 0.2])
    assert "tried 4 times" in caught.value.__notes__


def test_retry_after_is_honoured() -> None:
    waits: list[float] = []
    api = FakeApi(unavailable(3), problem(429, "throttled", {"retry-after": "2"}), httpx.Response(200, json=job()))
    with client_of(api, waits=waits) as client:
        client.get_job(JOB_ID)
    assert waits == pytest.approx([3.05, 2.1])


def test_a_long_retry_after_goes_to_the_caller() -> None:
    waits: list[float] = []
    with (
        client_of(FakeApi(problem(429, "queue_full", {"retry-after": "600"})), waits=waits) as client,
        pytest.raises(errors.QueueFull) as caught,
    ):
        client.enqueue("x")
    assert (waits, caught.value.retry_after_secs) == ([], 600)


def test_circuit_opens_on_503s_in_a_row_and_a_probe_closes_it() -> None:
    now = [0.0]
    api = FakeApi(unavailable(), unavailable(), httpx.Response(200, json=job()))
    with client_of(api, retries=0, breaker=Breaker(threshold=2, clock=lambda: now[0])) as client:
        for _ in range(2):
            with pytest.raises(errors.Unavailable):
                client.get_job(JOB_ID)
        with pytest.raises(CircuitOpen, match="nothing was sent"):
            client.get_job(JOB_ID)
        assert len(api.requests) == 2
        now[0] += 5
        assert client.get_job(JOB_ID).id == JOB_ID
        client.get_job(JOB_ID)
    assert len(api.requests) == 4


def test_refusals_do_not_open_the_circuit() -> None:
    with client_of(FakeApi(problem(404, "not_found")), breaker=Breaker(threshold=1)) as client:
        for _ in range(3):
            with pytest.raises(errors.NotFound):
                client.get_job(JOB_ID)


@pytest.mark.parametrize(
    ("status", "code", "cls"),
    [
        (422, "validation_error", errors.Invalid), (400, "malformed_body", errors.MalformedBody),
        (401, "unauthenticated", errors.Unauthenticated), (403, "forbidden", errors.Forbidden),
        (404, "not_found", errors.NotFound), (405, "method_not_allowed", errors.MethodNotAllowed),
        (413, "payload_too_large", errors.PayloadTooLarge), (415, "unsupported_media_type", errors.UnsupportedMediaType),
        (409, "invalid_transition", errors.InvalidTransition), (409, "lease_lost", errors.LeaseLost),
        (409, "unique_conflict", errors.UniqueConflict),
        (409, "idempotency_conflict", errors.IdempotencyConflict), (409, "queue_not_empty", errors.QueueNotEmpty),
        (409, "plan_drifted", errors.PlanDrifted), (429, "queue_full", errors.QueueFull), (429, "throttled", errors.Throttled),
        (503, "unavailable", errors.Unavailable), (500, "internal", errors.Internal),
    ],
)  # fmt: skip
def test_each_code_becomes_its_class(status: int, code: str, cls: type[errors.TidemillError]) -> None:
    with client_of(FakeApi(problem(status, code)), retries=0) as client, pytest.raises(errors.TidemillError) as caught:
        client.get_job(JOB_ID)
    assert type(caught.value) is cls
    assert caught.value.detail == f"{code} it is"
    assert "HTTP " + str(status) + ", request id r-1" in caught.value.__notes__


def test_every_code_of_the_contract_has_a_class() -> None:
    from tidemill.client.problems import _CODED
    from tidemill.http.problem import STATUSES

    assert set(STATUSES) - {"conflict"} == set(_CODED)


def test_errors_bring_what_their_classes_promise() -> None:
    faults = [{"loc": ["payload", 3, "a"], "msg": "is bad"}]
    with client_of(FakeApi(problem(422, "validation_error", errors=faults))) as client, pytest.raises(errors.Invalid) as invalid:
        client.enqueue("x")
    assert invalid.value.faults == (errors.Fault(("payload", 3, "a"), "is bad"),)
    with (
        client_of(FakeApi(problem(409, "unique_conflict", job_id="1", holder_id="2"))) as client,
        pytest.raises(errors.UniqueConflict) as held,
    ):
        client.retry(JOB_ID)
    assert (held.value.job_id, held.value.holder_id) == ("1", "2")


@pytest.mark.parametrize(
    ("answer", "cls"),
    [
        (httpx.Response(404, json={"message": "Not Found"}), errors.NotFound),
        (httpx.Response(403, text="<html>no</html>"), errors.Forbidden),
        (httpx.Response(502, text="<html>bad gateway</html>"), errors.Unavailable),
        (httpx.Response(500, json={"message": "Internal Server Error"}), errors.Internal),
        (httpx.Response(302, headers={"location": "/login"}), UnexpectedAnswer),
        (httpx.Response(418), UnexpectedAnswer),
        (httpx.Response(200, text="<html>hello</html>"), UnexpectedAnswer),
        (httpx.Response(200, json=[1]), UnexpectedAnswer),
        (httpx.Response(200, json={"hello": 1}), UnexpectedAnswer),
        (httpx.Response(422, json={"code": "validation_error", "errors": "nonsense"}), errors.Invalid),
        (httpx.Response(429, json=[[[]]], headers={"retry-after": "soon"}), errors.Throttled),
    ],
)
def test_answers_of_strangers_become_errors_of_ours(answer: httpx.Response, cls: type[errors.TidemillError]) -> None:
    with client_of(FakeApi(answer), retries=0) as client, pytest.raises(errors.TidemillError) as caught:
        client.get_job(JOB_ID)
    assert type(caught.value) is cls


def test_list_asks_for_pages_as_they_are_needed() -> None:
    pages = [
        httpx.Response(200, json={"items": [job(), job()], "next_cursor": "c1"}),
        httpx.Response(200, json={"items": [job()], "next_cursor": None}),
    ]
    api = FakeApi(*pages)
    with client_of(api) as client:
        found = client.list_jobs(state=["queued", "running"], created_after=datetime(2027, 1, 1, tzinfo=UTC), tag=None, page_size=2)
        assert api.requests == []
        assert len(list(found)) == 3
    assert api.requests[0].url.params.multi_items() == [
        ("state", "queued"), ("state", "running"), ("created_after", "2027-01-01T00:00:00Z"), ("limit", "2"),
    ]  # fmt: skip
    assert api.requests[1].url.params["cursor"] == "c1"


def test_bulk_without_atomic_travels_in_as_many_calls_as_it_takes() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        jobs = json.loads(request.content)["jobs"]
        results: list[dict[str, Any]] = [
            {"index": i, "job_id": str(j["payload"]), "state": "queued", "deduplicated": False} for i, j in enumerate(jobs)
        ]
        results[-1] = {"index": len(jobs) - 1, "error": {"code": "validation_error", "loc": ["jobs", len(jobs) - 1, "queue"], "msg": "no"}}
        return httpx.Response(200, json={"results": results, "created": len(jobs) - 1, "deduplicated": 0, "failed": 1})

    api = FakeApi(answer)
    with client_of(api) as client:
        found = client.enqueue_many(({"job_type": "x", "payload": n} for n in range(2_500)), atomic=False)
    assert [len(api.body(n)["jobs"]) for n in range(3)] == [1_000, 1_000, 500]
    assert (found.created, found.failed) == (2_497, 3)
    assert [item.index for item in found] == list(range(2_500))
    assert found.results[1_999].error == {"code": "validation_error", "loc": ["jobs", 1_999, "queue"], "msg": "no"}
    assert len(found.job_ids) == 2_497


def test_bulk_is_parted_by_bytes_too() -> None:
    api = FakeApi(httpx.Response(200, json={"results": [], "created": 0, "deduplicated": 0, "failed": 0}))
    with client_of(api) as client:
        client.enqueue_many([{"job_type": "x", "payload": "y" * 250_000}] * 20, atomic=False)
    assert [len(r.content) <= 4 * 1024 * 1024 for r in api.requests] == [True, True]


def test_atomic_bulk_over_the_limit_is_refused_here() -> None:
    api = FakeApi(CREATED)
    with client_of(api) as client, pytest.raises(errors.OutOfRange, match="0 to 1,000"):
        client.enqueue_many([{"job_type": "x"}] * 1_001)
    assert api.requests == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"payload": float("inf")}, "payload: is no JSON value"),
        ({"payload": {1, 2}}, "payload: is no JSON value"),
        ({"run_at": datetime(2027, 1, 1)}, "run_at: has no time zone"),  # noqa: DTZ001 - to be refused
    ],
)
def test_what_is_no_job_is_refused_here(fields: dict[str, Any], words: str) -> None:
    api = FakeApi(CREATED)
    with client_of(api) as client, pytest.raises(errors.Invalid, match=words):
        client.enqueue("x", **fields)
    assert api.requests == []


def test_numbers_and_odd_text_travel_as_they_are() -> None:
    api = FakeApi(CREATED)
    with client_of(api) as client:
        client.enqueue("x", [10**40, 1.0, 1e23, "é", "\ud800"])
    assert b"10000000000000000000000000000000000000000" in api.requests[0].content
    assert b"100000000000000000000000.0" in api.requests[0].content
    assert b"\\ud800" in api.requests[0].content


def test_ids_cannot_leave_their_path() -> None:
    api = FakeApi(problem(404, "not_found"))
    with client_of(api) as client, pytest.raises(errors.NotFound):
        client.cancel("../queues/default?x=1")
    assert api.requests[0].url.raw_path == b"/v1/jobs/..%2Fqueues%2Fdefault%3Fx%3D1/cancel"


@pytest.mark.parametrize("url", ["", "jobs.example.com", "ftp://x", "http://", "http://user:pw@host", "http://host/?a=1"])
def test_bad_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(errors.Invalid, match="url"):
        Client(url, KEY)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_bad_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(errors.Invalid, match="api_key") as caught:
        Client(URL, key)
    assert not key or key not in str(caught.value)


def test_key_is_in_no_log_repr_or_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with client_of(FakeApi(BROKEN), retries=1) as client, pytest.raises(Unreachable) as caught:
        client.get_job(JOB_ID)
    shown = [repr(client), str(caught.value), *caught.value.__notes__, caplog.text]
    assert not [text for text in shown if "topsecret" in text]


def test_one_client_serves_many_threads() -> None:
    api = FakeApi(httpx.Response(200, json=job()))
    with client_of(api) as client:
        threads = [threading.Thread(target=lambda: [client.get_job(JOB_ID) for _ in range(20)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(api.requests) == 160


def test_closed_client_says_so() -> None:
    client = client_of(FakeApi(CREATED))
    client.close()
    with pytest.raises(Unreachable, match="closed"):
        client.enqueue("x")


def test_client_is_found_at_the_top() -> None:
    assert tidemill.Client is Client


def test_authorities_are_loaded_for_an_encrypted_api_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take 60 ms, most of what a command takes."""
    loaded = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **more: loaded.append(more))
    Client("http://api.example", KEY).close()
    assert loaded == []
    Client("https://api.example", KEY).close()
    assert len(loaded) == 1
