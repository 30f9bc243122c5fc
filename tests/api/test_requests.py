"""Requests as gateways really send them: paths, encodings, numbers, zones, clocks, big ids."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from api.gateway import Gateway, event_rest, event_v2
from harness import lent
from harness.clock import allowed
from tidemill.http.fields import instant_of

NUMBERS = '{"big":12345678901234567890123,"a":0.1,"b":1.0,"c":1e2,"d":-0,"e":1e23,"f":5e-324,"s":"1","z":[],"m":{"y":1,"x":2}}'


def test_b071_the_same_request_in_every_form_gets_the_same_answer(gateway: Gateway) -> None:
    gateway.post("/v1/queues", {"name": "prod"})
    auth = {"authorization": f"Bearer {gateway.key}"}
    mixed = {"AUTHORIZATION": f"Bearer {gateway.key}", "X-Amzn-Trace-Id": "1"}
    no_stage = event_v2("GET", "/v1/queues/prod", headers=auth)
    del no_stage["requestContext"]["stage"]
    null_stage = event_v2("GET", "/v1/queues/prod", headers=auth)
    null_stage["requestContext"]["stage"] = None
    events = [
        event_v2("GET", "/v1/queues/prod", headers=auth), event_v2("GET", "/prod/v1/queues/prod", headers=auth, stage="prod"),
        no_stage, null_stage,
        event_v2("GET", "/v1/v1/queues/prod", headers=mixed), event_v2("GET", "/v1/queues/prod/", headers=auth),
        event_v2("GET", "//v1//queues/prod", headers=mixed, stage="prod"), event_rest("GET", "/v1/queues/prod", headers=mixed),
        event_rest("GET", "/v1/queues/prod/", headers=auth),
    ]  # fmt: skip
    answers = [gateway.send(event) for event in events]
    assert {reply.status for reply in answers} == {200}
    assert len({reply.text for reply in answers}) == 1
    assert answers[0].json["name"] == "prod"
    for event in (event_v2("GET", "/prod/v1/nope", headers=auth, stage="prod"), event_rest("GET", "/v1/nope", headers=auth)):
        assert gateway.send(event).json["code"] == "not_found"


def test_b071_query_parameters_come_alike_from_both_events(gateway: Gateway) -> None:
    made = [gateway.enqueue(tags=["a", "b"]), gateway.enqueue(tags=["a"])]
    auth = {"authorization": f"Bearer {gateway.key}"}
    v2 = gateway.send(event_v2("GET", "/v1/jobs", headers=auth, query={"tag": ["a", "b"]})).json
    rest = gateway.send(event_rest("GET", "/v1/jobs", headers=auth, query={"tag": ["a", "b"]})).json
    assert [job["id"] for job in v2["items"]] == [job["id"] for job in rest["items"]] == made[:1]


def test_b068_the_plain_and_the_base64_twin_make_the_same_job(gateway: Gateway) -> None:
    body = {"job_type": "t", "payload": json.loads(NUMBERS), "tags": ["ü"]}
    plain = gateway.post("/v1/jobs", body)
    twin = gateway.post("/v1/jobs", body, base64_body=True)
    told = event_v2("POST", "/v1/jobs", body=body, base64_body=True, headers={"authorization": f"Bearer {gateway.key}"})
    told["isBase64Encoded"] = "true"
    said = gateway.send(told)
    details = [gateway.get(f"/v1/jobs/{reply.json['job']['id']}").json for reply in (plain, twin, said)]
    assert details[0]["payload"] == details[1]["payload"] == details[2]["payload"] == body["payload"]
    assert details[0]["tags"] == details[1]["tags"] == ["ü"]
    for bad in ("!!!", "e30"):
        event = event_v2("POST", "/v1/jobs", body=bad, headers={"authorization": f"Bearer {gateway.key}"})
        assert gateway.send({**event, "isBase64Encoded": True}).json["code"] == "malformed_body"


def test_b067_unstorable_text_is_refused_at_the_door_and_only_that_item_in_bulk(gateway: Gateway) -> None:
    for field, value in [("payload", {"a": "\x00"}), ("payload", {"\ud800": 1}), ("queue", "\x00"),
                         ("tags", ["\ud800"]), ("idempotency_key", "\x00"),
                         ("headers", {"a": "\x00"}), ("unique", {"by": ["\x00"]}), ("partition_key", "\udfff")]:  # fmt: skip
        reply = gateway.post("/v1/jobs", {"job_type": "t", field: value})
        assert (reply.status, reply.json["errors"][0]["loc"][0]) == (422, field), reply.text
    jobs: list[Any] = [{"job_type": "t"} for _ in range(10)]
    jobs[6] = {"job_type": "t", "payload": {"deep": [{"er": "\ud800"}]}}
    reply = gateway.post("/v1/jobs/bulk", {"jobs": jobs})
    assert (reply.status, reply.json["errors"][0]["loc"]) == (422, ["jobs", 6, "payload", "deep", 0, "er"])
    assert gateway.sql("select count(*) from tidemill.jobs") == [(0,)]
    answer = gateway.post("/v1/jobs/bulk", {"jobs": jobs, "atomic": False}).json
    assert (answer["created"], answer["failed"]) == (9, 1)
    assert [result["index"] for result in answer["results"] if "error" in result] == [6]
    # written out, "\\u0000" in a text is six characters and fine
    assert gateway.post("/v1/jobs", '{"job_type":"t","payload":"\\\\u0000"}').status == 201


def test_b070_a_worker_gets_the_numbers_that_were_sent(gateway: Gateway) -> None:
    gateway.post("/v1/jobs", f'{{"job_type":"t","payload":{NUMBERS}}}')
    (job,) = gateway.claim()
    sent = json.loads(NUMBERS)
    assert job["payload"] == sent
    assert {name: type(value) for name, value in job["payload"].items()} == {name: type(value) for name, value in sent.items()}
    gateway.ack(job, "complete", result=sent)
    assert gateway.get(f"/v1/jobs/{job['id']}").json["result"] == sent


def test_b070_duplicate_keys_odd_shapes_and_unique_keys_of_two_types(gateway: Gateway) -> None:
    gateway.post("/v1/jobs", '{"job_type":"t","payload":{"a":1,"a":2}}')
    assert gateway.claim()[0]["payload"] == {"a": 2}
    many = {f"k{number}": number for number in range(15_000)}
    gateway.enqueue(payload=many)
    assert gateway.claim()[0]["payload"] == many
    text, number = ({"payload": {"k": value}, "unique": {"by": ["k"]}} for value in ("1", 1))
    assert gateway.enqueue(**text) != gateway.enqueue(**number)
    again = gateway.post("/v1/jobs", {"job_type": "t", **number})
    assert (again.status, again.json["deduplicated"]) == (200, True)
    for bad in ("NaN", "1e999999", "[" * 200_000 + "]" * 200_000):
        began = time.perf_counter()
        reply = gateway.post("/v1/jobs", f'{{"job_type":"t","payload":{bad}}}')
        assert (reply.status, reply.json["code"]) == (400, "malformed_body")
        assert time.perf_counter() - began < allowed(1.0)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_b007_the_sessions_time_zone_shifts_nothing(gateway: Gateway, zone: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(gateway.dsn)["dbname"]
    with psycopg.connect(gateway.dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("alter database {} set timezone = {}").format(sql.Identifier(str(name)), sql.Literal(zone)))
    gateway.close()
    lent.forget(gateway.dsn)
    (now,) = gateway.sql("select clock_timestamp()")[0]
    due = (now + timedelta(minutes=1)).astimezone(UTC)
    plain = gateway.post("/v1/jobs", {"job_type": "t", "run_at": due.isoformat()}).json["job"]
    shifted = due.astimezone(datetime.fromisoformat("2027-01-01T00:00:00+05:30").tzinfo).isoformat()
    offset = gateway.post("/v1/jobs", {"job_type": "t", "run_at": shifted}).json["job"]
    assert instant_of(plain["run_at"]) == instant_of(offset["run_at"]) == due
    assert gateway.post("/v1/jobs", {"job_type": "t", "run_at": due.isoformat()[:-6]}).status == 422
    texts = [plain["run_at"], plain["created_at"], plain["updated_at"]]
    assert gateway.claim() == []
    gateway.sql("update tidemill.job_queue_entries set run_at = clock_timestamp() - interval '1 s'")
    gateway.sql("update tidemill.jobs j set run_at = e.run_at from tidemill.job_queue_entries e where e.job_id = j.id")
    jobs = gateway.claim(gateway.worker(), lease_ms=30_000)
    assert len(jobs) == 2
    detail = gateway.get(f"/v1/jobs/{plain['id']}").json
    texts += [
        jobs[0]["lease_expires_at"],
        jobs[0]["run_at"],
        detail["lease"]["claimed_at"],
        detail["lease"]["lease_expires_at"],
        detail["updated_at"],
    ]
    texts += [gateway.get("/v1/workers").json["items"][0]["last_seen_at"], gateway.get("/v1/queues/default").json["created_at"]]
    assert all(text.endswith("Z") for text in texts)
    (after,) = gateway.sql("select clock_timestamp()")[0]
    assert now <= instant_of(detail["lease"]["claimed_at"]) <= after
    assert instant_of(jobs[0]["lease_expires_at"]) - instant_of(detail["lease"]["claimed_at"]) == timedelta(seconds=30)


@pytest.mark.parametrize("ahead_s", [600, -600])
def test_b008_a_process_whose_clock_is_off_changes_nothing(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, ahead_s: int) -> None:
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + ahead_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + ahead_s * 10**9)
    (before,) = gateway.sql("select clock_timestamp()")[0]
    later = gateway.enqueue(delay_ms=60_000)
    now_id = gateway.enqueue()
    jobs = gateway.claim(gateway.worker(), lease_ms=30_000)
    assert [job["id"] for job in jobs] == [now_id]
    ((lease_end, due, after),) = gateway.sql(
        "select l.lease_expires_at, j.run_at, clock_timestamp() from tidemill.job_leases l, tidemill.jobs j where j.id = %s", [later]
    )
    assert before + timedelta(seconds=30) <= lease_end <= after + timedelta(seconds=30)
    assert before + timedelta(seconds=60) <= due <= after + timedelta(seconds=60)
    phases = {phase["name"]: phase for phase in gateway.post("/v1/tick").json["phases"]}
    assert phases["reap"]["counts"]["expired"] == 0
    worker = gateway.worker()
    beat = gateway.post(f"/v1/workers/{worker}/heartbeat", {"leases": [{"job_id": now_id, "lease_token": jobs[0]["lease_token"]}]}).json
    (end,) = gateway.sql("select lease_expires_at from tidemill.job_leases")[0]
    assert instant_of(beat["leases"][0]["lease_expires_at"]) == end


@pytest.mark.parametrize("start", [2**31 - 5, 2**53 + 1])
def test_b078_ids_beyond_32_and_53_bits(gateway: Gateway, start: int) -> None:
    sequences = gateway.sql("select format('%I.%I', schemaname, sequencename) from pg_sequences where schemaname = 'tidemill'")
    for (name,) in sequences:
        gateway.sql("select setval(%s::regclass, %s)", [name, start])
    worker = gateway.worker()
    made = gateway.post("/v1/jobs/bulk", {"jobs": [{"job_type": "t"}] * 20}).json
    jobs = gateway.claim(worker)
    assert len(jobs) == made["created"] == 20
    lines = [{"ts": "2027-01-01T00:00:00Z", "level": "info", "message": f"m{i}"} for i in range(20)]
    path = f"/v1/jobs/{jobs[0]['id']}"
    assert gateway.post(f"{path}/logs", {"lease_token": jobs[0]["lease_token"], "lines": lines}).json == {"stored": 20}
    first = gateway.get(f"{path}/logs", query={"limit": 7}).json
    rest = gateway.get(f"{path}/logs", query={"limit": 200, "cursor": first["next_cursor"]}).json
    ids = [line["id"] for line in first["items"] + rest["items"]]
    assert all(isinstance(text, str) for text in ids)
    assert [int(text) for text in ids] == list(range(start + 1, start + 21))
    assert [line["message"] for line in first["items"] + rest["items"]] == [f"m{i}" for i in range(20)]
    after = gateway.get(f"{path}/logs", query={"after": ids[9]}).json["items"]
    assert [line["id"] for line in after] == ids[10:]
    leases = [{"job_id": job["id"], "lease_token": job["lease_token"]} for job in jobs]
    assert len(gateway.post(f"/v1/workers/{worker}/heartbeat", {"leases": leases, "active_job_count": 20}).json["leases"]) == 20
    acks = [
        {**lease, "outcome": "complete" if i % 2 else "fail", **({} if i % 2 else {"retryable": False})} for i, lease in enumerate(leases)
    ]
    assert {r["status"] for r in gateway.post("/v1/acks", {"acks": acks}).json["results"]} == {"ok"}
    listed = gateway.get("/v1/jobs", query={"limit": 7})
    assert len(gateway.get("/v1/jobs", query={"limit": 200, "cursor": listed.json["next_cursor"]}).json["items"]) == 13
    assert gateway.post("/v1/tick").status == 200
    assert gateway.request("DELETE", f"/v1/workers/{worker}").json == {"released": 0}


def test_b078_no_key_is_an_int4(gateway: Gateway) -> None:
    keys = gateway.sql("""select c.table_name, c.column_name from information_schema.columns c
        join information_schema.key_column_usage k using (table_schema, table_name, column_name)
        where c.table_schema = 'tidemill' and c.data_type = 'integer' and c.table_name <> 'schema_migrations'""")
    assert keys == []
