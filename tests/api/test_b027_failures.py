"""B027: every failure is a problem with a code, and neither bodies nor logs tell a secret or our insides."""

import io
import re
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from api.gateway import Context, Gateway, checked, event_v2
from api.gateway import Reply as Response
from tidemill.config import Settings
from tidemill.domain import limits
from tidemill.http.app import App
from tidemill.http.authorize import Authorizer
from tidemill.http.dispatch import Dispatcher
from tidemill.store.database import Database

MARKER = "marker-5ecret-9f2e"
NOBODY = "01900000-0000-7000-8000-000000000000"  # one that no job has; fixed, so that every process collects the same tests
INSIDES = re.compile(
    r"select |insert |psycopg|sqlstate|\.py\b|traceback|site-packages|postgresql://|/functions/|127\.0\.0\.1|23505|22P0|57014",
    re.IGNORECASE,
)


def clean(*texts: str) -> None:
    for text in texts:
        assert MARKER not in text
        assert not INSIDES.search(text), INSIDES.search(text)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404), ("GET", "/v1", 404), ("GET", "/", 404), ("GET", "/v1/jobs/x/y/z", 404), ("PUT", "/v1/jobs", 405),
        ("GET", "/v1/claims", 405),
        ("POST", "/healthz", 405), ("GET", "/v1/jobs/abc", 404), ("GET", f"/v1/jobs/{2**70}", 404), ("GET", f"/v1/jobs/{NOBODY}", 404),
        ("GET", "/v1/jobs/%00", 404), ("GET", "/v1/jobs/%F0%9F%92%A9", 404), ("GET", "/v1/workers/abc", 404), ("GET", "/v1/queues/-", 404),
        ("POST", f"/v1/jobs/{NOBODY}/cancel", 404), ("DELETE", f"/v1/jobs/{NOBODY}", 404), ("DELETE", "/v1/api-keys/abc", 404),
        ("GET", "/v1/projects/abc/api-keys", 404), ("GET", "/v1/retry-policies/" + "a" * 201, 404), ("GET", "/%ED%A0%80", 404),
    ],
)  # fmt: skip
def test_b027_wrong_routes_methods_and_ids(shared_gateway: Gateway, shared_log: io.StringIO, method: str, path: str, status: int) -> None:
    reply = shared_gateway.request(method, path)
    assert reply.status == status, reply.text
    if status == 405:
        assert reply.headers["allow"]
    clean(reply.text, shared_log.getvalue())


def test_b027_ids_in_upper_case_are_the_same_ids(gateway: Gateway) -> None:
    job_id = gateway.enqueue()
    assert gateway.get(f"/v1/jobs/{job_id.upper()}").json["id"] == job_id


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        ("{", {}, 400, "malformed_body"), ("", {}, 400, "malformed_body"), (None, {}, 400, "malformed_body"),
        ("[]", {}, 422, "validation_error"),
        ('"x"', {}, 422, "validation_error"), ("null", {}, 422, "validation_error"),
        ("{}", {"content-type": "text/plain"}, 415, "unsupported_media_type"),
        ("{}", {"content-type": ""}, 415, "unsupported_media_type"), (f'{{"a":"{"x" * limits.BODY_BYTES}"}}', {}, 413, "payload_too_large"),
        (f'{{"job_type":"{MARKER} {MARKER}","{MARKER}":1}}', {}, 422, "validation_error"),
        ('{"job_type":"t","payload":[1e999]}', {}, 400, "malformed_body"),
        ('{"job_type":"t","queue":"missing"}', {}, 422, "validation_error"),
    ],
    ids=range(12),
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/bulk", "/v1/claims", "/v1/acks", "/v1/queues"])
def test_b027_wrong_bodies(
    shared_gateway: Gateway, shared_log: io.StringIO, path: str, body: Any, headers: dict[str, str], status: int, code: str
) -> None:
    reply = shared_gateway.post(path, body, headers=headers)
    assert (reply.status, reply.json["code"]) == (status, code), reply.text
    assert shared_gateway.sql("select count(*) from tidemill.jobs") == [(0,)]
    assert INSIDES.search(reply.text + shared_log.getvalue()) is None
    assert MARKER not in shared_log.getvalue()
    assert MARKER not in reply.text.replace(f'"{MARKER}"', "")  # an unknown field is named, its value is not


def test_b027_secrets_and_payloads_are_in_no_answer_and_no_log(gateway: Gateway, log: io.StringIO) -> None:
    job_id = gateway.enqueue(payload={"password": MARKER}, headers={"x": MARKER})
    (job,) = gateway.claim()
    for verb in ("progress", "checkpoint", "output", "logs"):
        gateway.post(f"/v1/jobs/{job_id}/{verb}", {"lease_token": str(uuid4()), "data": MARKER, "message": MARKER})
    gateway.post("/v1/acks", {"acks": [{"job_id": MARKER, "lease_token": MARKER, "outcome": MARKER, "result": MARKER}]})
    gateway.ack(job, "fail", error={"class": "E", "message": MARKER})
    refused = gateway.get("/v1/jobs", key=f"tm_test_{uuid4().hex}_{MARKER}", headers={"cookie": MARKER})
    assert refused.status == 401
    gateway.get("/v1/jobs", query={"q": MARKER, "sort": MARKER})
    text = log.getvalue()
    assert text.count('"request"') >= 8
    assert gateway.key not in text
    clean(text, refused.text)


def broken(gateway: Gateway, dsn: str) -> Any:
    """An enqueue handler whose database is that one; the caller is known already."""
    settings = Settings(stage="test", database_url=dsn)
    app = App("enqueue", Dispatcher(settings=settings, database=Database(dsn), log=gateway.log))

    def send(method: str, path: str, body: Any = None) -> Any:
        event = event_v2(method, path, body=body)
        said = {
            "fault": "",
            "principal_kind": "api_key",
            "principal_id": str(uuid4()),
            "project_id": gateway.project_id,
            "scopes": "enqueue,read",
        }
        event["requestContext"]["authorizer"] = {"lambda": said}
        response = app(event, Context())
        return checked(Response(response["statusCode"], response["headers"], response["body"]))

    return send


def test_b027_a_database_that_is_down_is_503_with_retry_after(gateway: Gateway, log: io.StringIO) -> None:
    dsn = f"postgresql://user:{MARKER}@127.0.0.1:1/nothing"
    send = broken(gateway, dsn)
    for method, path, body in [("POST", "/v1/jobs", {"job_type": "t"}), ("GET", "/v1/jobs", None), ("GET", "/readyz", None)]:
        reply = send(method, path, body)
        assert (reply.status, reply.json["code"]) == (503, "unavailable")
        clean(reply.text)
    assert send("GET", "/healthz").status == 200
    clean(log.getvalue())
    settings = Settings(stage="test", database_url=dsn)
    answer = Authorizer(settings=settings, log=gateway.log)({"headers": {"authorization": f"Bearer {gateway.key}"}})
    assert answer == {"isAuthorized": True, "context": {"fault": "unavailable"}}
    clean(log.getvalue())


def test_b027_an_authorizers_outage_that_the_gateway_remembers_does_not_outlast_the_databases(gateway: Gateway) -> None:
    event = event_v2("GET", "/v1/jobs", headers={"authorization": f"Bearer {gateway.key}"})
    event["requestContext"]["authorizer"] = {"lambda": {"fault": "unavailable"}}
    assert gateway.app("enqueue")(event, Context())["statusCode"] == 200
    event["headers"]["authorization"] = "Bearer nothing"
    event["requestContext"]["authorizer"] = {"lambda": {"fault": "unavailable"}}
    assert gateway.app("enqueue")(event, Context())["statusCode"] == 401


def test_b027_a_statement_that_times_out_is_503(gateway: Gateway, log: io.StringIO) -> None:
    gateway.get("/v1/jobs")
    database = next(d for d in gateway.databases[1:] if d._conn is not None)
    database._conn.execute("set statement_timeout = 50")
    with psycopg.connect(gateway.dsn) as other:
        other.execute("lock table tidemill.jobs")
        reply = gateway.get("/v1/jobs")
    assert (reply.status, reply.json["code"]) == (503, "unavailable")
    clean(reply.text, log.getvalue())
    assert gateway.get("/v1/jobs").status == 200


def test_b027_names_that_are_taken_and_values_that_checks_refuse_are_told_as_such(gateway: Gateway, log: io.StringIO) -> None:
    for path in ("/v1/queues", "/v1/retry-policies"):
        assert gateway.post(path, {"name": "mine"}).status == 201
        reply = gateway.post(path, {"name": "mine"})
        assert (reply.status, reply.json["code"]) == (409, "conflict")
        clean(reply.text)
    gateway.sql("alter table tidemill.queues add constraint odd check (priority <> 7)")
    reply = gateway.post("/v1/queues", {"name": "odd", "priority": 7})
    assert (reply.status, reply.json["code"]) == (422, "validation_error")
    clean(reply.text, log.getvalue())


def test_b027_a_fault_of_ours_is_500_without_a_word_about_it(gateway: Gateway, log: io.StringIO) -> None:
    gateway.sql("alter table tidemill.queues rename column weight to weights")
    reply = gateway.get("/v1/queues")
    assert (reply.status, reply.json["code"]) == (500, "internal")
    assert "request id" in reply.json["detail"]
    clean(reply.text, log.getvalue())
    logged = log.getvalue()
    assert "UndefinedColumn" in logged
    assert "tidemill.store.base:_rows" in logged or "tidemill.store.reads:_dicts" in logged


def test_b027_an_environment_that_makes_no_settings_is_500(monkeypatch: pytest.MonkeyPatch, log: io.StringIO) -> None:
    monkeypatch.setenv("TIDEMILL_DATABASE_URL", f"mysql://{MARKER}")
    app = App("enqueue", Dispatcher())
    event = event_v2("GET", "/readyz")
    response = app(event, Context())
    assert response["statusCode"] == 500
    clean(response["body"])
