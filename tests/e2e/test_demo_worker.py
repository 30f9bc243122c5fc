"""The demo worker of `tidemill dev`: a job enqueued by hand is run, and a worker that ends is replaced."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from harness.dev import Dev, until


@pytest.fixture(scope="module")
def dev() -> Iterator[Dev]:
    with Dev("--ephemeral", "--port", "0") as running:
        yield running.ready()


def job(api: httpx.Client, job_id: str) -> dict[str, Any]:
    answer = api.get(f"/v1/jobs/{job_id}").json()
    return dict(answer.get("job", answer))


def enqueue(api: httpx.Client, **fields: Any) -> str:
    return str(api.post("/v1/jobs", json=fields).json()["job"]["id"])


def test_a_job_travels_from_the_api_to_a_result(api: httpx.Client) -> None:
    made = enqueue(api, job_type="demo.hello", payload={"name": "Ünal"})
    until(lambda: job(api, made)["state"] == "completed", what="the job's end")
    assert job(api, made)["result"] == {"greeting": "hello, Ünal"}


def test_a_failing_job_ends_in_the_dead_letters(api: httpx.Client) -> None:
    made = enqueue(api, job_type="demo.fail", retry_policy={"strategy": "fixed", "base_delay_ms": 10, "max_attempts": 2})
    until(lambda: job(api, made)["state"] == "dead_letter", what="the job's end")
    assert job(api, made)["attempt_count"] == 2


def test_a_running_job_can_be_cancelled(api: httpx.Client) -> None:
    made = enqueue(api, job_type="demo.count", payload={"to": 600, "step_ms": 50})
    until(lambda: job(api, made)["state"] == "running" and job(api, made)["progress"], what="progress")
    api.post(f"/v1/jobs/{made}/cancel", json={})
    until(lambda: job(api, made)["state"] == "cancelled", what="the job's end")


def test_a_worker_that_is_killed_is_replaced(api: httpx.Client, dev: Dev) -> None:
    until(lambda: dev.running("tidemill.cli"), what="the worker")
    (first,) = dev.running("tidemill.cli")
    first.kill()
    until(lambda: [process.pid for process in dev.running("tidemill.cli")] not in ([], [first.pid]), what="another worker")
    made = enqueue(api, job_type="demo.hello")
    until(lambda: job(api, made)["state"] == "completed", what="the job's end")
