"""`HttpSource` against an API that answers what the test says: polls, late answers, outages."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from harness.fake_api import KEY, URL, problem, unavailable
from tidemill.client import source as sources
from tidemill.client.problems import CircuitOpen
from tidemill.client.source import HttpSource
from tidemill.domain.errors import LeaseLost, Unavailable
from tidemill.domain.jobs import Ack, Failure, Heartbeat, Lease, LogLine, Registration
from tidemill.domain.transitions import Event
from tidemill.ports import JobSource

WORKER = "01a228ea-6d51-7a89-8421-000000000001"
TOKEN = "01a228ea-6d51-4a89-8421-000000000002"
SOON = 60.0


def claimed(name: str = "j1", **fields: Any) -> dict[str, Any]:
    return {
        "id": name, "job_type": "x", "queue": "default", "payload": {"n": 1}, "schema_version": None, "headers": {}, "attempt": 1,
        "max_attempts": 5, "fence": 1, "lease_token": TOKEN, "lease_expires_at": "2027-01-31T09:00:00.5Z", "timeout_ms": None,
        "checkpoint": None, "traceparent": None, "tracestate": None, "priority": 3, "run_at": "2027-01-31T08:00:00Z",
    } | fields  # fmt: skip


class Api(httpx.BaseTransport):
    """Answers by path; `claims` may be a function that holds the request open."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.on_claim: Callable[[dict[str, Any]], httpx.Response] = lambda _: httpx.Response(200, json={"jobs": []})
        self.replies: dict[str, httpx.Response] = {}
        self.released = threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        path = request.url.path
        self.asked.append((request.method, path, body))
        if path in self.replies:
            reply = self.replies[path]
            return httpx.Response(reply.status_code, content=reply.content, headers=reply.headers)
        if path == "/v1/workers":
            return httpx.Response(201, json={"worker_id": WORKER, "heartbeat_interval_ms": 15_000, "lease_ms": 60_000})
        if path == "/v1/claims":
            return self.on_claim(body)
        if path == "/v1/acks":
            if any(ack["outcome"] == "release" for ack in body["acks"]):
                self.released.set()
            return httpx.Response(
                200, json={"results": [{"job_id": a["job_id"], "status": "ok", "state": "completed", "code": None} for a in body["acks"]]}
            )
        return httpx.Response(200, json={})

    def bodies(self, path: str) -> list[Any]:
        return [body for _, asked, body in self.asked if asked == path]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def source(api: Api) -> Iterator[HttpSource]:
    made = HttpSource(URL, KEY, wait_ms=5_000, transport=api)
    made.register(Registration("w", ["default"], job_types=["x"], lease_ms=30_000))
    yield made
    made.close()


def after(seconds_bound: float, what: threading.Event) -> None:
    assert what.wait(seconds_bound), "it did not happen in time"


def test_it_is_a_job_source(source: HttpSource) -> None:
    as_port: JobSource = source
    assert as_port is source


def test_claim_asks_for_begun_jobs_under_the_registered_lease(api: Api, source: HttpSource) -> None:
    api.on_claim = lambda _: httpx.Response(200, json={"jobs": [claimed(payload=[1e23, 10**30], checkpoint={"at": 1}, headers={"a": "b"})]})
    [job] = source.claim(7)
    assert (job.payload, job.checkpoint, job.headers) == (
        "[100000000000000000000000.0,1000000000000000000000000000000]",
        '{"at":1}',
        '{"a":"b"}',
    )
    assert (job.lease_expires_at, job.priority) == (datetime(2027, 1, 31, 9, 0, 0, 500_000, tzinfo=UTC), 3)
    assert api.bodies("/v1/claims") == [
        {"worker_id": WORKER, "queues": ["default"], "job_types": ["x"], "limit": 7, "lease_ms": 30_000, "start": True, "wait_ms": 0}
    ]


def test_rest_holds_a_claim_open_and_the_next_claim_has_its_jobs(api: Api, source: HttpSource) -> None:
    assert source.claim(3) == []
    api.on_claim = lambda body: httpx.Response(200, json={"jobs": [claimed("a"), claimed("b")] if body["wait_ms"] else []})
    source.rest(SOON)
    assert [job.job_id for job in source.claim(1)] == ["a"]
    assert [job.job_id for job in source.claim(5)] == ["b"]
    assert [(b["limit"], b["wait_ms"]) for b in api.bodies("/v1/claims")] == [(3, 0), (3, 5_000)]
    assert not api.released.is_set()


def test_empty_poll_is_followed_by_another_within_the_rest(api: Api, source: HttpSource) -> None:
    answers = iter([[], [], [claimed()]])
    api.on_claim = lambda _: httpx.Response(200, json={"jobs": next(answers)})
    source.rest(SOON)
    assert len(source.claim(1)) == 1


def test_wake_ends_the_rest_and_a_late_answer_is_given_back(api: Api, source: HttpSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "GRACE_SECS", 0.01)
    held, let_go = threading.Event(), threading.Event()

    def hold(body: dict[str, Any]) -> httpx.Response:
        held.set()
        after(SOON, let_go)
        return httpx.Response(200, json={"jobs": [claimed()]})

    api.on_claim = hold
    resting = threading.Thread(target=source.rest, args=(SOON,))
    resting.start()
    after(SOON, held)
    assert source.claim(1) == [], "the claim that is out is not doubled"
    source.wake()
    resting.join(SOON)
    assert not resting.is_alive()
    let_go.set()
    after(SOON, api.released)
    assert api.bodies("/v1/acks") == [{"acks": [{"job_id": "j1", "lease_token": TOKEN, "outcome": "release"}]}]
    assert len(api.bodies("/v1/claims")) == 1


def test_wake_before_the_rest_counts(source: HttpSource) -> None:
    source.wake()
    source.rest(SOON)


def test_deregister_waits_for_the_claim_that_is_out_and_gives_its_jobs_back(api: Api, source: HttpSource) -> None:
    held, let_go = threading.Event(), threading.Event()

    def hold(body: dict[str, Any]) -> httpx.Response:
        held.set()
        after(SOON, let_go)
        return httpx.Response(200, json={"jobs": [claimed()]})

    api.on_claim = hold
    source.rest(0)
    after(SOON, held)
    leaving = threading.Thread(target=source.deregister)
    leaving.start()
    let_go.set()
    leaving.join(SOON)
    order = [(method, path) for method, path, _ in api.asked]
    assert order[-2:] == [("POST", "/v1/acks"), ("DELETE", f"/v1/workers/{WORKER}")]


def test_without_long_poll_rest_only_waits(api: Api) -> None:
    source = HttpSource(URL, KEY, wait_ms=0, transport=api)
    source.register(Registration("w", ["default"]))
    source.rest(0.01)
    assert api.bodies("/v1/claims") == []
    source.close()


def test_failed_poll_ends_the_rest_and_the_claim_says_why(api: Api, source: HttpSource) -> None:
    api.on_claim = lambda _: unavailable()
    source.rest(SOON)
    with pytest.raises(Unavailable):
        source.claim(1)


def test_outage_loses_no_ack_and_none_is_sent_twice_by_the_source(api: Api, source: HttpSource) -> None:
    acks = [Ack("j1", TOKEN, Event.COMPLETE, 1, result='{"a":1}')]
    api.replies["/v1/acks"] = unavailable()
    for _ in range(7):
        with pytest.raises(Unavailable):
            source.settle(acks)
    assert len(api.bodies("/v1/acks")) == 5, "then the circuit is open"
    with pytest.raises(CircuitOpen):
        source.settle(acks)
    assert source._transport.is_failing
    source._transport._breaker._until = 0.0  # the wait is over
    del api.replies["/v1/acks"]
    [result] = source.settle(acks)
    assert (result.job_id, result.status, result.state) == ("j1", "ok", "completed")


def test_probe_is_no_long_poll(api: Api, source: HttpSource) -> None:
    source._transport._breaker._until = 0.0
    source.rest(0)
    source.deregister()
    assert [body["wait_ms"] for body in api.bodies("/v1/claims")] == [0]


def test_acks_carry_what_their_outcome_knows(api: Api, source: HttpSource) -> None:
    failure = Failure("ValueError", "no", "stack")
    source.settle(
        [
            Ack("a", TOKEN, Event.COMPLETE, 1), Ack("b", TOKEN, Event.SNOOZE, 1, delay_ms=5),
            Ack("c", TOKEN, Event.FAIL, 1, failure=failure, retryable=False, retry_delay_ms=9), Ack("d", TOKEN, Event.RELEASE, 1),
            Ack("e", TOKEN, Event.ACK_CANCELLED, 1), Ack("f", TOKEN, Event.CRASH, 1, failure=Failure("Killed", "9"), exit_code=-9),
            Ack("g", TOKEN, Event.FAIL, 1, throttle_ms=5),
        ]
    )  # fmt: skip
    token, error = {"lease_token": TOKEN}, {"class": "ValueError", "message": "no", "stack": "stack"}
    assert api.bodies("/v1/acks")[0]["acks"] == [
        {"job_id": "a", "outcome": "complete"} | token,
        {"job_id": "b", "outcome": "snooze", "delay_ms": 5} | token,
        {"job_id": "c", "outcome": "fail", "error": error, "retryable": False, "retry_delay_ms": 9} | token,
        {"job_id": "d", "outcome": "release"} | token,
        {"job_id": "e", "outcome": "cancelled"} | token,
        {"job_id": "f", "outcome": "crash", "error": {"class": "Killed", "message": "9"}, "exit_code": -9} | token,
        {"job_id": "g", "outcome": "fail", "retryable": True, "throttle_ms": 5} | token,
    ]


def test_acks_with_large_results_travel_in_several_calls(api: Api, source: HttpSource) -> None:
    acks = [Ack(f"j{n}", TOKEN, Event.COMPLETE, n, result=json.dumps("y" * 250_000)) for n in range(20)]
    assert [r.job_id for r in source.settle(acks)] == [a.job_id for a in acks]
    assert len(api.bodies("/v1/acks")) == 2


def test_heartbeat_tells_what_is_asked(api: Api, source: HttpSource) -> None:
    api.replies[f"/v1/workers/{WORKER}/heartbeat"] = httpx.Response(
        200,
        json={
            "command": "quiet",
            "cancel": ["j1"],
            "lost": ["j2"],
            "leases": [{"job_id": "j1", "lease_expires_at": "2027-01-31T09:00:00Z"}],
        },
    )
    answer = source.heartbeat(Heartbeat([Lease("j1", TOKEN)], 1, 0.5, 20.0, "running"))
    assert (answer.command, answer.cancel, answer.lost) == ("quiet", ["j1"], ["j2"])
    assert answer.leases[0].cancel_requested


def test_reports_name_their_lease_and_a_lost_one_is_told(api: Api, source: HttpSource) -> None:
    lease = Lease("j1", TOKEN)
    source.progress(lease, 1, 10, "one")
    source.checkpoint(lease, '{"at":1}', "c")
    source.output(lease, "[1]")
    source.logs(lease, [LogLine(datetime(2027, 1, 31, tzinfo=UTC), "info", "hello")])
    assert [(path, body) for _, path, body in api.asked[1:]] == [
        ("/v1/jobs/j1/progress", {"lease_token": TOKEN, "current": 1, "total": 10, "message": "one"}),
        ("/v1/jobs/j1/checkpoint", {"lease_token": TOKEN, "data": {"at": 1}, "cursor": "c"}),
        ("/v1/jobs/j1/output", {"lease_token": TOKEN, "data": [1]}),
        ("/v1/jobs/j1/logs", {"lease_token": TOKEN, "lines": [{"ts": "2027-01-31T00:00:00Z", "level": "info", "message": "hello"}]}),
    ]
    api.replies["/v1/jobs/j1/progress"] = problem(409, "lease_lost", job_id="j1")
    with pytest.raises(LeaseLost) as caught:
        source.progress(lease, 2, 10, None)
    assert caught.value.job_id == "j1"


def test_children_come_back_one_by_one(api: Api, source: HttpSource) -> None:
    api.replies["/v1/jobs/j1/children"] = httpx.Response(
        200,
        json={
            "results": [{"index": 0, "job_id": "c1", "state": "queued", "deduplicated": False}],
            "created": 1,
            "deduplicated": 0,
            "failed": 0,
        },
    )
    [child] = source.children(Lease("j1", TOKEN), [{"job_type": "y"}])
    assert (child.job_id, child.state, child.code) == ("c1", "queued", None)


def test_close_ends_a_rest_under_way(api: Api, source: HttpSource) -> None:
    let_go = threading.Event()

    def hold(body: dict[str, Any]) -> httpx.Response:
        after(SOON, let_go)
        return httpx.Response(200, json={"jobs": []})

    api.on_claim = hold
    resting = threading.Thread(target=source.rest, args=(SOON,))
    resting.start()
    source.close()
    resting.join(SOON)
    assert not resting.is_alive()
    let_go.set()
    with pytest.raises(Unavailable):
        source.claim(1)
