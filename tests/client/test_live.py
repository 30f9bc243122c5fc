"""`Client` and `HttpSource` against a whole local instance: what they expect is what the API says."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import psycopg
import pytest

from harness.clock import allowed
from harness.instance import Instance
from harness.outage import Proxy
from tidemill.client import Client, HttpSource, enqueue_in_transaction
from tidemill.domain import errors
from tidemill.domain.jobs import Ack, ClaimedJob, Failure, Heartbeat, Lease, LogLine, Registration
from tidemill.domain.transitions import Event

T = TypeVar("T")
MISSING = "01a228ea-6d51-7a89-8421-7067d6a32154"


@pytest.fixture
def client(instance: Instance) -> Iterator[Client]:
    with Client(instance.url, instance.api_key) as made:
        yield made


@pytest.fixture
def source(instance: Instance) -> Iterator[HttpSource]:
    made = HttpSource(instance.url, instance.api_key, wait_ms=1_000)
    made.register(Registration("live", ["default"], hostname="h", pid=1, version="1", job_types=["live"], max_concurrency=4))
    yield made
    made.deregister()
    made.close()


def one(source: HttpSource) -> ClaimedJob:
    [job] = source.claim(1)
    return job


def complete(source: HttpSource, job: ClaimedJob) -> None:
    [result] = source.settle([Ack(job.job_id, job.lease_token, Event.COMPLETE, 1)])
    assert result.status == "ok"


def patiently(call: Callable[[], T]) -> T:
    """As the runner does: an ack is sent until it is through."""
    ends_at = time.monotonic() + 120
    while time.monotonic() < ends_at:
        with suppress(errors.Unavailable):
            return call()
        time.sleep(0.05)
    return call()


def test_job_comes_back_as_it_was_sent(client: Client) -> None:
    payload = {"n": [10**30, 1.0, 1e23, 0.1], "s": "é\u2028", "z": None}
    made = client.enqueue("other", payload, priority=5, delay_ms=timedelta(hours=1), tags=["a"], headers={"k": "v"}, max_attempts=3)
    job = client.get_job(made.id)
    assert (job.payload, job.priority, job.state, list(job.tags), job.max_attempts) == (payload, 5, "scheduled", ["a"], 3)
    assert str(job.payload) == str(payload)
    assert job.run_at is not None and job.created_at is not None
    assert job.run_at - job.created_at == pytest.approx(timedelta(hours=1), abs=timedelta(seconds=1))
    assert "cancel" in job.actions


def test_bulk_tells_each_job_s_fate(client: Client) -> None:
    found = client.enqueue_many([{"job_type": "other"}, {"job_type": "other", "queue": "nowhere"}, {"job_type": "bad name"}], atomic=False)
    assert (found.created, found.failed) == (1, 2)
    assert [item.error and list(item.error["loc"]) for item in found] == [None, ["jobs", 1, "queue"], ["jobs", 2, "job_type"]]
    with pytest.raises(errors.Invalid) as caught:
        client.enqueue_many([{"job_type": "other"}, {"job_type": "other", "queue": "nowhere"}])
    assert caught.value.faults[0].loc == ("jobs", 1, "queue")


def test_keys_are_answered(client: Client) -> None:
    first = client.enqueue("other", idempotency_key="live-1")
    again = client.enqueue("other", idempotency_key="live-1")
    assert (again.id, first.deduplicated, again.deduplicated) == (first.id, False, True)
    with pytest.raises(errors.IdempotencyConflict):
        client.enqueue("other", {"n": 2}, idempotency_key="live-1")


def test_operator_verbs_bring_the_job_after_them(client: Client) -> None:
    made = client.enqueue("other", hold=True)
    assert client.promote(made.id).state == "queued"
    assert client.reschedule(made.id, datetime(2040, 1, 1, tzinfo=UTC)).state == "scheduled"
    assert client.edit(made.id, priority=9, payload={"n": 2}).priority == 9
    assert client.get_job(client.rerun(made.id).id).payload == {"n": 2}
    assert client.cancel(made.id).state == "cancelled"
    with pytest.raises(errors.InvalidTransition):
        client.retry(made.id)
    client.delete(made.id)
    with pytest.raises(errors.NotFound):
        client.get_job(made.id)


def test_lists_are_walked_to_their_end(client: Client) -> None:
    client.enqueue_many([{"job_type": "walked"}] * 25)
    found = [job.id for job in client.list_jobs(job_type="walked", state=["queued", "running"], page_size=10)]
    assert (len(found), len(set(found))) == (25, 25)


def test_faults_are_those_of_the_contract(client: Client, instance: Instance) -> None:
    with pytest.raises(errors.NotFound):
        client.get_job(MISSING)
    with pytest.raises(errors.Invalid) as caught:
        client.enqueue("x", priority=99_999)
    assert caught.value.faults[0].loc == ("priority",)
    with Client(instance.url, "tm_local_unknown_key") as stranger, pytest.raises(errors.Unauthenticated):
        stranger.get_job(MISSING)


def test_version_queues_and_tick(client: Client) -> None:
    assert client.version()
    assert "default" in [queue["name"] for queue in client.list_queues()]
    assert client.tick()


def test_source_works_a_job_off(client: Client, source: HttpSource) -> None:
    made = client.enqueue("live", {"n": [1, 1.0]}, headers={"k": "v"}, timeout_ms=5_000)
    job = one(source)
    assert (job.job_id, job.payload, job.headers, job.attempt, job.timeout_ms) == (made.id, '{"n":[1,1.0]}', '{"k":"v"}', 1, 5_000)
    lease = Lease(job.job_id, job.lease_token)
    answer = source.heartbeat(Heartbeat([lease], 1, 0.5, 20.0, "running"))
    assert ([beat.job_id for beat in answer.leases], answer.lost, answer.command) == ([made.id], [], None)
    source.progress(lease, 1, 2, "half")
    source.checkpoint(lease, '{"at":1}', "c1")
    source.output(lease, '{"so":"far"}')
    source.logs(lease, [LogLine(datetime.now(UTC), "info", "hello")])
    [child] = source.children(lease, [{"job_type": "other", "payload": {"of": made.id}}])
    done = Ack(job.job_id, job.lease_token, Event.COMPLETE, 1, result='{"ok":true}')
    for _ in range(2):  # the exact repeat is ok again
        [result] = source.settle([done])
        assert (result.status, result.state) == ("ok", "completed")
    found = client.get_job(made.id)
    assert (found.state, found.result, found.output, found.checkpoint) == ("completed", {"ok": True}, {"so": "far"}, {"at": 1})
    assert [line["message"] for line in client.logs(made.id)] == ["hello"]
    assert [attempt.status for attempt in client.executions(made.id)] == ["completed"]
    assert client.events(made.id)
    assert child.job_id is not None and client.get_job(child.job_id).state == "queued"


def test_source_learns_that_a_lease_is_lost(client: Client, source: HttpSource) -> None:
    made = client.enqueue("live", max_attempts=1)
    job = one(source)
    lease = Lease(job.job_id, job.lease_token)
    assert client.cancel(made.id).state == "running"
    assert list(source.heartbeat(Heartbeat([lease])).cancel) == [made.id]
    assert client.cancel(made.id, force=True).state == "cancelled"
    assert list(source.heartbeat(Heartbeat([lease])).lost) == [made.id]
    with pytest.raises(errors.LeaseLost):
        source.progress(lease, 1, None, None)
    [result] = source.settle([Ack(job.job_id, job.lease_token, Event.FAIL, 1, failure=Failure("E", "m"))])
    assert result.status == "lease_lost"


def test_rest_ends_as_soon_as_a_job_is_there(client: Client, source: HttpSource) -> None:
    assert source.claim(1) == []
    made = client.enqueue("live", delay_ms=300)
    began = time.monotonic()
    source.rest(120)
    assert time.monotonic() - began < 60
    job = one(source)
    assert job.job_id == made.id
    complete(source, job)


def test_deregister_gives_back_what_is_held(client: Client, instance: Instance) -> None:
    made = client.enqueue("given-back")
    leaver = HttpSource(instance.url, instance.api_key, wait_ms=0)
    leaver.register(Registration("leaver", ["default"], job_types=["given-back"]))
    one(leaver)
    leaver.deregister()
    leaver.close()
    job = client.get_job(made.id)
    assert (job.state, job.attempt_count) == ("queued", 0)
    client.cancel(made.id)


def test_ack_survives_an_outage(client: Client, instance: Instance) -> None:
    made = client.enqueue("outlived")
    with Proxy(instance.url) as proxy:
        worker = HttpSource(proxy.url, instance.api_key, wait_ms=0)
        worker.register(Registration("outliving", ["default"], job_types=["outlived"]))
        job = one(worker)
        ack = Ack(job.job_id, job.lease_token, Event.COMPLETE, 1)
        proxy.is_down = True
        for _ in range(8):
            with pytest.raises(errors.Unavailable):
                worker.settle([ack])
        proxy.is_down = False
        result = patiently(lambda: worker.settle([ack])[0])
        assert result.status == "ok"
        worker.deregister()
        worker.close()
    assert client.get_job(made.id).state == "completed"


def test_close_ends_a_call_under_way(instance: Instance) -> None:
    made = HttpSource(instance.url, instance.api_key, wait_ms=20_000)
    made.register(Registration("closing", ["default"], job_types=["nothing"]))
    began = time.monotonic()
    made.rest(0.2)
    made.close()
    with pytest.raises(errors.Unavailable):
        made.claim(1)
    assert time.monotonic() - began < allowed(10)


def test_job_of_a_transaction_is_like_any_other(client: Client, instance: Instance) -> None:
    with psycopg.connect(instance.dsn) as conn:
        [item] = enqueue_in_transaction(conn, instance.project_id, [{"job_type": "other", "payload": [1e23]}])
        assert item.job_id is not None
        with pytest.raises(errors.NotFound):
            client.get_job(item.job_id)
    assert client.get_job(item.job_id).payload == [1e23]
