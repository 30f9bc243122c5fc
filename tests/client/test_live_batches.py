"""Batches through `Client`, and parents through `HttpSource`, against a whole local instance; `tidemill batches` on top."""

import json
from collections.abc import Iterator

import pytest

from harness.dev import cli
from harness.instance import Instance
from tidemill.client import Client, HttpSource
from tidemill.domain import errors
from tidemill.domain.jobs import Ack, ClaimedJob, Lease, ParentResult, Registration
from tidemill.domain.transitions import Event


@pytest.fixture
def client(instance: Instance) -> Iterator[Client]:
    with Client(instance.url, instance.api_key) as made:
        yield made


@pytest.fixture
def source(instance: Instance) -> Iterator[HttpSource]:
    made = HttpSource(instance.url, instance.api_key, wait_ms=0)
    made.register(Registration("families", ["default"], job_types=["member", "sum"], max_concurrency=9))
    yield made
    made.deregister()
    made.close()


def complete(source: HttpSource, job: ClaimedJob, result: str) -> None:
    [answer] = source.settle([Ack(job.job_id, job.lease_token, Event.COMPLETE, 1, result)])
    assert answer.status == "ok"


def test_a_batch_from_creation_to_its_callback(client: Client, source: HttpSource, instance: Instance) -> None:
    made = client.create_batch("nightly", jobs=[{"job_type": "member"}], callbacks={"on_success": {"job_type": "sum"}})
    assert (made.status, made.total, made.pending) == ("open", 1, 1)
    assert client.add_to_batch(made.id, [{"job_type": "member"}, {"job_type": "member"}]).created == 2
    assert client.seal_batch(made.id).status == "sealed"
    with pytest.raises(errors.InvalidTransition, match="a sealed batch cannot take jobs"):
        client.add_to_batch(made.id, [{"job_type": "member"}])
    for job in source.claim(9):
        complete(source, job, "1")
    ended = client.get_batch(made.id)
    assert (ended.status, ended.completed, ended.fired) == ("completed", 3, ["on_success"])
    [callback] = source.claim(9)
    assert json.loads(callback.headers or "{}")["tidemill-batch-id"] == made.id
    complete(source, callback, "3")
    assert made.id in [batch.id for batch in client.list_batches()]
    assert len(list(client.list_jobs(batch_id=made.id))) == 3
    with pytest.raises(errors.InvalidTransition):
        client.cancel_batch(made.id)

    here = {"TIDEMILL_URL": instance.url, "TIDEMILL_API_KEY": instance.api_key}
    shown = cli("batches", "show", made.id, **here).stdout
    assert "nightly" in shown
    assert "on_success: sum (created)" in shown
    assert json.loads(cli("batches", "show", made.id, "--json", **here).stdout)["completed"] == 3


def test_a_batch_is_cancelled(client: Client) -> None:
    made = client.create_batch(jobs=[{"job_type": "member"}] * 2)
    assert (client.cancel_batch(made.id).status, client.get_batch(made.id).cancelled) == ("cancelled", 2)


def test_parents_come_over_http_with_their_results(client: Client, source: HttpSource) -> None:
    parents = [client.enqueue("member").id for _ in range(2)]
    child = client.enqueue("sum", depends_on=parents)
    for n, job in enumerate(source.claim(9)):
        complete(source, job, str(n))
    [job] = source.claim(9)
    assert job.job_id == child.id
    found = source.parents(Lease(job.job_id, job.lease_token))
    assert found == [ParentResult(parents[0], "completed", "0"), ParentResult(parents[1], "completed", "1")]
    complete(source, job, "1")
    with pytest.raises(errors.LeaseLost):
        source.parents(Lease(job.job_id, job.lease_token))
