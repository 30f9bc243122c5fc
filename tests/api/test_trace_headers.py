"""A request's `traceparent` and `tracestate` go on in the jobs that it makes (W3C Trace Context)."""

from __future__ import annotations

from typing import Any

import pytest

from api.gateway import Gateway

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"


def trace(gateway: Gateway, job_id: str) -> tuple[Any, Any]:
    job = gateway.get(f"/v1/jobs/{job_id}").json
    return job["traceparent"], job["tracestate"]


def test_a_job_goes_on_with_the_trace_of_its_request_and_its_worker_gets_it(gateway: Gateway) -> None:
    headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
    job = gateway.post("/v1/jobs", {"job_type": "t"}, headers=headers).json["job"]
    assert trace(gateway, job["id"]) == (PARENT, "vendor=1")
    (claimed,) = gateway.claim()
    assert claimed["traceparent"] == PARENT
    children = gateway.post(
        f"/v1/jobs/{claimed['id']}/children",
        {"lease_token": claimed["lease_token"], "jobs": [{"job_type": "c"}]},
        headers={"traceparent": OTHER},
    )
    assert trace(gateway, children.json["results"][0]["job_id"]) == (OTHER, None)


def test_a_job_of_its_own_trace_keeps_it(gateway: Gateway) -> None:
    jobs = [
        {"job_type": "t", "traceparent": OTHER, "tracestate": "own=1"},
        {"job_type": "t"},
        {"job_type": "t", "tags": ["a"], "traceparent": None},
    ]
    made = gateway.post("/v1/jobs/bulk", {"jobs": jobs}, headers={"traceparent": PARENT}).json["results"]
    assert [trace(gateway, one["job_id"]) for one in made] == [(OTHER, "own=1"), (PARENT, None), (PARENT, None)]
    batch = gateway.post("/v1/batches", {"jobs": [{"job_type": "t"}]}, headers={"traceparent": PARENT}).json["batch"]
    (member,) = gateway.get("/v1/jobs", query={"batch_id": batch["id"]}).json["items"]
    assert trace(gateway, member["id"]) == (PARENT, None)


def test_a_repeat_in_another_trace_is_still_the_same_request(gateway: Gateway) -> None:
    body = {"job_type": "t", "idempotency_key": "k"}
    first, again = (gateway.post("/v1/jobs", body, headers={"traceparent": one}) for one in (PARENT, OTHER))
    assert (first.status, again.status) == (201, 200)
    assert trace(gateway, again.json["job"]["id"]) == (PARENT, None)


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "x"}, {"traceparent": PARENT.upper()},
        {"traceparent": "ff" + PARENT[2:]}, {"traceparent": f"{PARENT}-{'x' * 300}"},
        {"traceparent": f"00-{'0' * 32}-b7ad6b7169203331-01"}, {"traceparent": f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01"},
        {"tracestate": "vendor=1"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_trace_is_passed_over(gateway: Gateway, headers: dict[str, str]) -> None:
    reply = gateway.post("/v1/jobs", {"job_type": "t"}, headers=headers)
    assert reply.status == 201, reply.text
    assert trace(gateway, reply.json["job"]["id"]) == (None, None)
