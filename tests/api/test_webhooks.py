"""The webhook over the API: set, shown, rotated, tested, removed; and its calls, from a dead job to a receiver that verifies them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from api.gateway import Context, Gateway, add_key, as_role
from harness.receiver import Receiver, status
from scheduler import handler as scheduler
from tidemill.courier.rounds import Courier
from tidemill.courier.send import send
from tidemill.http.couriers import served
from tidemill.store.database import Database

URL = "https://hooks.example.com/services/T0/whisper"


@pytest.fixture
def scheduler_database(database: str) -> Iterator[Database]:
    """As the role that serves the courier on AWS."""
    made = Database(as_role(database, "scheduler"))
    yield made
    made.close()


@pytest.fixture
def courier(scheduler_database: Database) -> Courier:
    return Courier(
        lambda question: carried(served(scheduler_database, carried(question)["courier"])), lambda call: send(call, is_local=True)
    )


def carried(message: Mapping[str, Any]) -> Any:
    """What of it survives the way between two functions."""
    return json.loads(json.dumps(message))


def put(gateway: Gateway, url: str = URL, **fields: Any) -> dict[str, Any]:
    reply = gateway.request("PUT", "/v1/webhook", {"url": url, **fields})
    assert reply.status in (200, 201), reply.text
    found: dict[str, Any] = reply.json
    return found


def local(gateway: Gateway, receiver: Receiver, **fields: Any) -> str:
    """The project's webhook leads to the receiver on this machine, as a laptop's may; its secret."""
    made = put(gateway, **fields)
    gateway.sql("update tidemill.webhooks set url = %s where project_id = %s", [receiver.url, gateway.project_id])
    secret: str = made["secret"]
    return secret


def kill(gateway: Gateway, message: str = "it broke") -> str:
    job_id = gateway.enqueue(payload={"secret": "whisper"})
    (claimed,) = gateway.claim(gateway.worker())
    gateway.ack(claimed, "fail", error={"class": "E", "message": message}, retryable=False)
    return job_id


def test_the_secret_is_shown_once_and_the_webhook_always(gateway: Gateway) -> None:
    made = put(gateway)
    assert made["secret"].startswith("whsec_")
    shown = gateway.get("/v1/webhook").json
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert (shown["status"], shown["events"], shown["queues"], shown["url"]) == ("active", ["job.dead_letter"], None, URL)
    changed = put(gateway, events=["schedule.broken", "job.dead_letter"], queues=["b", "a"], is_paused=True)
    assert "secret" not in changed
    assert (changed["events"], changed["queues"], changed["status"]) == (["job.dead_letter", "schedule.broken"], ["a", "b"], "paused")
    assert put(gateway)["is_paused"], "as it was"
    rotated = gateway.post("/v1/webhook/rotate")
    assert rotated.status == 201
    assert rotated.json["secret"] not in (made["secret"], None)
    assert rotated.json["old_secret_until"] is not None
    assert gateway.request("DELETE", "/v1/webhook").status == 204
    assert gateway.get("/v1/webhook").status == 404
    assert gateway.post("/v1/webhook/test").status == 404
    assert gateway.get("/v1/webhook/deliveries").json["items"] == []


@pytest.mark.parametrize("url", [
    "http://example.com/", "http://127.0.0.1:9/", "https://127.0.0.1/", "https://localhost/", "https://10.1.2.3/x", "https://[::1]/",
    "https://169.254.169.254/latest/meta-data", "https://[::ffff:10.0.0.1]/", "https://user:pw@example.com/", "https://example.com/#f",
    "https:///x", "https://exa mple.com/", "https://example.com:99999/", "https://exämple.com/", "ftp://example.com/",
    "https://" + "a" * 3_000,
    "https://example.com/\\n@10.0.0.1", "https://example.com\\@10.0.0.1/", "//example.com/x",
])  # fmt: skip
def test_an_address_that_is_not_public_https_is_refused(gateway: Gateway, url: str) -> None:
    reply = gateway.request("PUT", "/v1/webhook", {"url": url})
    assert reply.status == 422, reply.text
    assert reply.json["errors"][0]["loc"][-1] == "url"


def test_faulty_fields_are_named(gateway: Gateway) -> None:
    for body in (
        {},
        {"url": URL, "events": []},
        {"url": URL, "events": ["job.born"]},
        {"url": URL, "queues": []},
        {"url": URL, "secret": "x"},
    ):
        assert gateway.request("PUT", "/v1/webhook", body).status == 422


def test_who_may_only_read_sees_where_it_leads_but_not_the_path(gateway: Gateway, database: str) -> None:
    put(gateway)
    reader = add_key(database, gateway.project_id, "read")
    assert gateway.get("/v1/webhook", key=reader).json["url"] == "https://hooks.example.com/…"
    assert gateway.request("PUT", "/v1/webhook", {"url": URL}, key=reader).status == 403
    log = str(gateway.get("/v1/audit").json)
    assert "webhook.put" in log
    assert "whisper" not in log


def test_a_dead_job_reaches_a_receiver_that_verifies_it(gateway: Gateway, courier: Courier, log: io.StringIO) -> None:
    with Receiver([status(500, b"secret words")]) as receiver:
        secret = local(gateway, receiver)
        job_id = kill(gateway, "order 7 of 'ann' is gone")
        assert gateway.post("/v1/tick").status == 200
        assert courier.run(5) == {"delivered": 0, "again": 1, "failed": 0}
        make_due(gateway)
        assert courier.run(5)["delivered"] == 1
        first, second = receiver.got()
    assert first.id == second.id
    assert first.body == second.body
    (item,) = first.json["data"]["items"]
    assert (item["job"]["id"], item["message"], item["error_class"]) == (job_id, "order <n> of <text> is gone", "E")
    assert all(got.is_signed_by(secret) for got in (first, second))
    assert not first.is_signed_by("whsec_" + "A" * 43 + "=")
    assert b"whisper" not in first.body
    (call,) = gateway.get("/v1/webhook/deliveries").json["items"]
    assert (f"evt_{call['id']}", call["status"], call["attempts"], call["event"]) == (first.id, "delivered", 2, "job.dead_letter")
    shown = gateway.get("/v1/webhook").json
    assert (shown["status"], shown["last_status"], shown["last_error"], shown["failed_attempts"]) == ("active", 500, "it answered 500", 0)
    everything = log.getvalue() + str(gateway.sql("select to_jsonb(a)::text from tidemill.audit_log a")) + str(shown) + str(call)
    for hidden in (secret.removeprefix("whsec_"), "secret words", "whisper"):
        assert hidden not in everything


def test_the_overview_tells_how_the_webhook_stands(gateway: Gateway) -> None:
    def standing() -> object:
        return gateway.get("/v1/stats/overview").json["webhook"]

    assert standing() is None
    put(gateway)
    assert standing() == {"status": "active", "failing_since": None}
    gateway.sql("update tidemill.webhooks set failing_since = '2030-01-01T00:00:00Z'")
    assert standing() == {"status": "failing", "failing_since": "2030-01-01T00:00:00.000000Z"}
    gateway.sql("update tidemill.webhooks set is_paused = true")
    assert gateway.get("/v1/webhook").json["status"] == "paused"
    assert standing() == {"status": "paused", "failing_since": "2030-01-01T00:00:00.000000Z"}


def test_what_a_removed_webhook_was_not_told_is_not_told_to_the_next_one(gateway: Gateway, courier: Courier) -> None:
    with Receiver() as receiver:
        local(gateway, receiver)
        kill(gateway)
        gateway.post("/v1/tick")
        assert gateway.request("DELETE", "/v1/webhook").status == 204
        local(gateway, receiver)
        courier.run(5)
        assert receiver.got() == []
        gateway.post("/v1/webhook/test")
        gateway.post("/v1/tick")
        courier.run(5)
        assert [got.json["type"] for got in receiver.got()] == ["webhook.test"]


def make_due(gateway: Gateway) -> None:
    gateway.sql("update tidemill.jobs set run_at = now() where phase = 'moving' and project_id = tidemill.system_project()")
    gateway.sql(
        "update tidemill.job_queue_entries e set run_at = j.run_at from tidemill.jobs j"
        " where j.id = e.job_id and j.project_id = tidemill.system_project()"
    )
    gateway.sql("insert into tidemill.lane_news (queue_id, job_id, run_at) select queue_id, job_id, run_at from tidemill.job_queue_entries")


def test_after_a_rotation_both_secrets_sign_for_a_day(gateway: Gateway, courier: Courier) -> None:
    with Receiver() as receiver:
        secrets = [local(gateway, receiver)]
        secrets += [gateway.post("/v1/webhook/rotate").json["secret"] for _ in range(2)]
        gateway.post("/v1/webhook/test")
        gateway.post("/v1/tick")
        courier.run(5)
        (got,) = receiver.got()
        assert [got.is_signed_by(secret) for secret in secrets] == [False, True, True], "the last two, and no longer chain"
        gateway.sql("update tidemill.webhook_secrets set ends_at = now() where ends_at is not null")
        gateway.post("/v1/webhook/test")
        gateway.sql("update tidemill.webhooks set quiet_until = now()")
        gateway.post("/v1/tick")
        courier.run(5)
        (got,) = receiver.got()
        assert [got.is_signed_by(secret) for secret in secrets] == [False, False, True]
    assert got.json["type"] == "webhook.test"


def test_two_tenants_have_each_their_own(gateway: Gateway, courier: Courier) -> None:
    theirs = Gateway(gateway.dsn)
    with Receiver() as ours_receiver, Receiver() as their_receiver:
        ours_secret, their_secret = local(gateway, ours_receiver), local(theirs, their_receiver)
        ours, other = kill(gateway), kill(theirs)
        gateway.post("/v1/tick")
        courier.run(5)
        (got_ours,), (got_theirs,) = ours_receiver.got(), their_receiver.got()
    try:
        assert [item["job"]["id"] for item in got_ours.json["data"]["items"]] == [ours]
        assert [item["job"]["id"] for item in got_theirs.json["data"]["items"]] == [other]
        assert (got_ours.is_signed_by(ours_secret), got_ours.is_signed_by(their_secret)) == (True, False)
        assert len(theirs.get("/v1/webhook/deliveries").json["items"]) == 1
        (call,) = gateway.get("/v1/webhook/deliveries").json["items"]
        assert theirs.get(f"/v1/jobs/{call['id']}").status == 404, "the system's jobs are nobody's"
        assert gateway.get(f"/v1/jobs/{call['id']}").status == 404
    finally:
        theirs.close()


def test_who_serves_people_can_write_secrets_and_not_read_them(gateway: Gateway, database: str) -> None:
    put(gateway)
    for role in ("admin", "enqueue", "claims", "worker", "authorizer"):
        with psycopg.connect(as_role(database, role), autocommit=True) as conn, pytest.raises(InsufficientPrivilege):
            conn.execute("select secret from tidemill.webhook_secrets")
    for role in ("enqueue", "claims", "worker", "authorizer"):
        with psycopg.connect(as_role(database, role), autocommit=True) as conn, pytest.raises(InsufficientPrivilege):
            conn.execute("select url from tidemill.webhooks")


def test_the_schedulers_handler_answers_the_courier_and_logs_nothing_of_it(
    gateway: Gateway, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scheduler_database: Database
) -> None:
    put(gateway)
    kill(gateway)
    gateway.post("/v1/tick")
    monkeypatch.setattr(type(scheduler.dispatcher), "database", scheduler_database)
    asked = {"courier": {"id": "00000000-0000-4000-8000-00000000000c", "take": 99, "reports": []}}
    answer = scheduler.handler(asked, Context())
    assert [call["url"] for call in answer["calls"]] == [URL]
    assert answer["calls"][0].keys() == {"job_id", "lease_token", "url", "headers", "body"}, "and no secret"
    assert "whisper" not in "".join(capsys.readouterr())
