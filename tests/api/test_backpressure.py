"""A full queue over HTTP: 429 queue_full with Retry-After, for one job, for many, for children and batches."""

import json
from typing import Any

import pytest

from api.gateway import Gateway
from tidemill.client.transaction import enqueue_in_transaction
from tidemill.domain.errors import QueueFull
from tidemill.store.database import connect

JOB = {"job_type": "t"}


@pytest.fixture(autouse=True)
def bounded(gateway: Gateway) -> None:
    assert gateway.request("PATCH", "/v1/queues/default", {"max_unfinished_jobs": 2}).json["max_unfinished_jobs"] == 2


def fill(gateway: Gateway) -> None:
    assert gateway.post("/v1/jobs/bulk", {"jobs": [JOB] * 2}).json["created"] == 2


def refused(reply: Any) -> None:
    assert (reply.status, reply.json["code"]) == (429, "queue_full"), reply.text
    assert int(reply.headers["retry-after"]) > 0
    assert reply.json["detail"].startswith("queue 'default' is full: it may hold 2 unfinished jobs")


def test_full_queue_answers_429_with_a_time_to_come_back(gateway: Gateway) -> None:
    fill(gateway)
    refused(gateway.post("/v1/jobs", JOB))
    (job, _) = gateway.claim()
    refused(gateway.post("/v1/jobs", JOB))
    gateway.ack(job, "complete")
    assert gateway.post("/v1/jobs", JOB).status == 201


def test_atomic_bulk_is_refused_whole_and_a_split_one_says_which(gateway: Gateway) -> None:
    refused(gateway.post("/v1/jobs/bulk", {"jobs": [JOB] * 3}))
    answer = gateway.post("/v1/jobs/bulk", {"jobs": [JOB] * 3, "atomic": False})
    assert answer.status == 200
    assert (answer.json["created"], answer.json["failed"]) == (2, 1)
    error = answer.json["results"][2]["error"]
    assert (error["code"], error["loc"]) == ("queue_full", ["jobs", 2, "queue"])


def test_repeat_of_a_request_is_answered_though_the_queue_is_full(gateway: Gateway) -> None:
    first = gateway.post("/v1/jobs", {**JOB, "idempotency_key": "a"}).json["job"]["id"]
    gateway.enqueue()
    again = gateway.post("/v1/jobs", {**JOB, "idempotency_key": "a"})
    assert (again.status, again.json["job"]["id"]) == (200, first)


def test_children_batches_reruns_and_triggers_find_the_queue_full_too(gateway: Gateway) -> None:
    fill(gateway)
    (job, _) = gateway.claim()
    refused(gateway.post(f"/v1/jobs/{job['id']}/children", {"lease_token": job["lease_token"], "jobs": [JOB]}))
    refused(gateway.post("/v1/batches", {"name": "b", "jobs": [JOB]}))
    refused(gateway.post(f"/v1/jobs/{job['id']}/rerun"))
    gateway.request("PUT", "/v1/schedules/s", {"cron": "0 9 * * *", "job": JOB})
    refused(gateway.post("/v1/schedules/s/trigger"))
    assert gateway.sql("select count(*) from tidemill.jobs") == [(2,)]
    assert gateway.sql("select count(*) from tidemill.job_batches") == [(0,)]


def test_helper_of_an_application_raises_queue_full_and_its_transaction_goes_on(gateway: Gateway) -> None:
    fill(gateway)
    with connect(gateway.dsn) as conn:
        with conn.transaction():
            with pytest.raises(QueueFull, match="queue 'default' is full") as full:
                enqueue_in_transaction(conn, gateway.project_id, [JOB])
            assert conn.execute("select 1").fetchone() == (1,)
        assert full.value.retry_after_secs == 2
        assert conn.execute("select count(*) from tidemill.jobs").fetchone() == (2,)


def test_statement_of_an_application_has_a_code_of_its_own(gateway: Gateway) -> None:
    fill(gateway)
    with connect(gateway.dsn) as conn, pytest.raises(Exception, match=r"jobs\[0\].queue: queue 'default' is full") as full:
        conn.execute("select * from tidemill.enqueue(%s, %s)", [gateway.project_id, json.dumps([JOB])])
    assert getattr(full.value, "sqlstate", None) == "TM429"
