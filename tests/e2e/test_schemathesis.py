"""What the OpenAPI document allows and what it forbids, sent to a running server: never a 5xx, never an answer that the document lacks.

The examples are the same in every run, and as many (TIDEMILL_TEST_FULL_SIZE=1: five times as many). Half of them keep to the document,
half break it in one place; where a path takes an id or a name, most have one that exists, so that they get further than to a 404.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
from typing import Any

import httpx
import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from harness.dev import Dev
from tidemill.http.problem import STATUSES

EACH = 20 if os.environ.get("TIDEMILL_TEST_FULL_SIZE") else 4
"""Examples of an operation that keep to the document, and as many that do not."""
SEED = 20_261_129
QUICK_MS = 20
HANDS_OFF = {("POST", "/v1/auth/logout"), ("DELETE", "/v1/api-keys/{id}"), ("DELETE", "/v1/projects/{id}")}
"""They would take away what the test itself needs; they have tests of their own."""

pytestmark = pytest.mark.timeout(600)


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """The document, but nobody waits for long."""
    found = copy.deepcopy(document)

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("name") == "wait_ms" and "schema" in value:
                value["schema"]["maximum"] = QUICK_MS
            for name, inner in value.items():
                if name == "wait_ms" and isinstance(inner, dict):
                    inner["maximum"] = QUICK_MS
                visit(inner)
        elif isinstance(value, list):
            for inner in value:
                visit(inner)

    visit(found)
    return found


def things(api: httpx.Client) -> dict[str, list[str]]:
    """Ids and names that exist, by the first word of the path."""
    body = [{"job_type": f"t{n}", "delay_ms": 10**8 if n % 3 else 0, "hold": n % 5 == 0} for n in range(20)]
    jobs = [result["job_id"] for result in api.post("/v1/jobs/bulk", json={"jobs": body}).json()["results"]]
    worker = api.post("/v1/workers", json={"name": "w", "queues": ["default"]}).json()["worker_id"]
    claimed = api.post("/v1/claims", json={"worker_id": worker, "queues": ["default"], "limit": 4}).json()["jobs"]
    ends = ["complete", "fail", "fail", "cancelled"]
    acks = [{"job_id": job["id"], "lease_token": job["lease_token"], "outcome": end} for job, end in zip(claimed, ends, strict=False)]
    api.post("/v1/acks", json={"acks": [ack | ({"retryable": False} if ack["outcome"] == "fail" else {}) for ack in acks]})
    api.put("/v1/schedules/nightly", json={"cron": "0 3 * * *", "job": {"job_type": "t"}})
    api.post("/v1/retry-policies", json={"name": "slow"})
    batch = api.post("/v1/batches", json={"name": "b"}).json()["batch"]["id"]
    return {"jobs": jobs, "dead-letters": jobs, "workers": [worker], "batches": [batch], "queues": ["default"], "schedules": ["nightly"],
            "retry-policies": ["slow"]}  # fmt: skip


@pytest.fixture(scope="module")
def dev(own_project: Dev) -> Dev:
    return own_project


@pytest.fixture
def explored(dev: Dev, api: httpx.Client) -> tuple[dict[str, Any], dict[str, list[str]]]:
    return api.get("/v1/openapi.json").json(), things(api)


def test_no_request_gets_a_5xx_or_an_answer_that_the_document_does_not_tell(
    dev: Dev, explored: tuple[dict[str, Any], dict[str, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    document, existing = explored
    schema = schemathesis.openapi.from_dict(narrowed(document))
    operations = [found.ok() for found in schema.get_all_operations()]
    operations = [one for one in operations if (one.method.upper(), one.path) not in HANDS_OFF]
    faults: dict[str, str] = {}
    sent = 0
    with requests.Session() as session:
        session.headers["authorization"] = f"Bearer {dev.about['api_key']}"
        for operation, mode in itertools.product(operations, (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)):
            sent += explore(dev, session, document, operation, mode, existing, faults)
    with capsys.disabled():
        print(f"\n{sent:,} examples of {len(operations)} operations", end=" ")
    assert faults == {}
    assert sent >= len(operations)


def explore(
    dev: Dev,
    session: requests.Session,
    document: dict[str, Any],
    operation: Any,
    mode: GenerationMode,
    existing: dict[str, list[str]],
    faults: dict[str, str],
) -> int:
    """Sends examples of one operation; how many."""
    told = document["paths"][operation.path][operation.method]["responses"]
    known = existing.get(operation.path.split("/")[2] if operation.path.count("/") > 1 else "", [])
    sent = 0

    @seed(SEED)
    @settings(max_examples=EACH, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), choice=st.integers(0, 3), data=st.data())
    def send(case: Any, choice: int, data: st.DataObject) -> None:
        nonlocal sent
        if choice and known and case.path_parameters:
            case.path_parameters = {name: data.draw(st.sampled_from(known)) for name in case.path_parameters}
        case.headers = {name: value for name, value in (case.headers or {}).items() if name.lower() != "authorization"}
        response = case.call(base_url=dev.url, session=session, timeout=40)
        sent += 1
        fault = fault_of(document, told, response.status_code, dict(response.headers), response.content)
        if fault is not None:
            name = f"{operation.method.upper()} {operation.path}: {fault}"
            faults.setdefault(name, case.as_curl_command().replace(dev.about["api_key"], "KEY")[:2_000])

    with contextlib.suppress(Unsatisfiable):  # an operation that leaves nothing to break has no examples that break it
        send()
    return sent


def fault_of(document: dict[str, Any], told: dict[str, Any], status: int, headers: dict[str, Any], body: bytes) -> str | None:
    """What is wrong with an answer; None if nothing is."""
    kind = str(next(iter([v for k, v in headers.items() if k.lower() == "content-type"]), "")).strip("[]'\"")
    if status >= 500:
        return f"{status} {body[:300].decode('utf-8', 'replace')}"
    if status >= 400:
        if "application/problem+json" not in kind:
            return f"{status} as {kind}"
        problem = json.loads(body)
        return None if STATUSES.get(problem["code"], (0,))[0] == status else f"{status} with code {problem['code']}"
    if str(status) not in told:
        return f"{status} is not told"
    content = told[str(status)].get("content", {})
    if not content:
        return None if not body else f"{status} with a body"
    media = kind.partition(";")[0].strip()
    if media not in content:
        return f"{status} as {kind}"
    if media != "application/json":
        return None
    validator = jsonschema_rs.validator_for({**content[media]["schema"], "components": document["components"]})
    error = next(iter(validator.iter_errors(json.loads(body))), None)
    return None if error is None else f"{status} not as told: {'/'.join(map(str, error.instance_path))}: {str(error.message)[:300]}"
