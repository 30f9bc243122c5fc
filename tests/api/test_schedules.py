"""Schedules over HTTP: put, edit, pause, resume, trigger, delete, preview, events, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import psycopg
import pytest

from api.gateway import Gateway, add_key, found
from tidemill.domain.cron import zone_data_release

DAILY = {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "job": {"job_type": "report.daily", "payload": {"at": "{{scheduled_at}}"}}}
PATH = "/v1/schedules/nightly"


@pytest.fixture
def api(database: str) -> Iterator[Gateway]:
    gateway = Gateway(database)
    yield gateway
    gateway.close()


def sql(api: Gateway, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(api.dsn, autocommit=True) as conn:
        cursor = conn.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def row(api: Gateway) -> list[tuple[Any, ...]]:
    return sql(api, "select to_jsonb(s) from tidemill.scheduled_jobs s order by s.name")


def jobs(api: Gateway) -> list[dict[str, Any]]:
    return [r[0] for r in sql(api, "select to_jsonb(v) from tidemill.job_states v order by v.id")]


def put(api: Gateway, name: str = "nightly", **fields: Any) -> Any:
    reply = api.request("PUT", f"/v1/schedules/{name}", {**DAILY, **fields})
    assert reply.status in (200, 201), reply.text
    return reply.json


def tick(api: Gateway) -> dict[str, Any]:
    reply = api.post("/v1/tick")
    assert reply.status == 200
    return {phase["name"]: phase for phase in reply.json["phases"]}


def test_put_creates_and_shows_what_it_will_do(api: Gateway) -> None:
    reply = api.request("PUT", PATH, DAILY)
    assert reply.status == 201
    made = reply.json
    assert made["name"] == "nightly"
    assert made["job"] == {"job_type": "report.daily", "queue": "default", "payload": {"at": "{{scheduled_at}}"}}
    assert (made["on_missed"], made["overlap"], made["on_gap"], made["on_fold"]) == ("run_once", "allow", "fire_after", "first")
    assert made["description"].startswith("At 09:00 every day, Europe/Berlin time.")
    assert made["zone_data_release"] == zone_data_release()
    assert (made["is_paused"], made["last_run_at"], made["error"]) == (False, None, None)
    assert api.get(PATH).json == made
    assert api.get("/v1/schedules").json == {"items": [made], "next_cursor": None}


def test_next_run_at_is_what_the_preview_says(api: Gateway) -> None:
    made = put(api)
    shown = api.get(f"{PATH}/preview", query={"n": 3}).json
    assert shown["fires"][0] == made["next_run_at"]
    assert len(shown["fires"]) == 3
    asked = api.post("/v1/schedules/preview", {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}).json
    assert asked["fires"][:3] == shown["fires"]


def test_an_unchanged_put_touches_nothing(api: Gateway) -> None:
    put(api, cron=None, timezone="UTC", every_ms=90_000)
    before = row(api)
    reply = api.request("PUT", PATH, {**DAILY, "cron": None, "timezone": "UTC", "every_ms": 90_000})
    assert reply.status == 200
    assert row(api) == before


def test_a_payload_edit_keeps_the_phase_of_an_interval(api: Gateway) -> None:
    before = put(api, cron=None, timezone="UTC", every_ms=3_600_000)
    after = api.request("PATCH", PATH, {"job": {"payload": {"new": True}}}).json
    assert after["next_run_at"] == before["next_run_at"]
    assert after["job"] == {"job_type": "report.daily", "queue": "default", "payload": {"new": True}}


def test_patch_changes_only_what_it_names(api: Gateway) -> None:
    before = put(api, jitter_ms=1_000, overlap="skip")
    after = api.request("PATCH", PATH, {"timezone": "UTC", "jitter_ms": None}).json
    assert after["next_run_at"].endswith("T09:00:00Z")
    changed = {name for name in after if after[name] != before[name]}
    assert changed - {"next_run_at"} == {"timezone", "jitter_ms", "updated_at", "description"}


def test_patch_can_turn_a_cron_into_an_interval(api: Gateway) -> None:
    put(api)
    after = api.request("PATCH", PATH, {"every_ms": 60_000}).json
    assert (after["cron"], after["every_ms"]) == (None, 60_000)


def test_pause_and_resume(api: Gateway) -> None:
    before = put(api)
    paused = api.post(f"{PATH}/pause").json
    assert (paused["is_paused"], paused["next_run_at"]) == (True, None)
    assert put(api)["is_paused"] is True, "a put that does not speak of it leaves the pause"
    resumed = api.post(f"{PATH}/resume").json
    assert (resumed["is_paused"], resumed["next_run_at"]) == (False, before["next_run_at"])
    assert put(api, is_paused=True)["is_paused"] is True
    assert not jobs(api)


def test_trigger_answers_the_job_and_leaves_the_schedule(api: Gateway) -> None:
    before = put(api)
    api.post(f"{PATH}/pause")
    reply = api.post(f"{PATH}/trigger")
    assert reply.status == 201
    job = reply.json["job"]
    assert (job["scheduled_job_id"], job["scheduled_for"], job["state"]) == (before["id"], None, "queued")
    assert [e["reason"] for e in api.get(f"{PATH}/events").json["items"]] == ["by hand"]


def test_a_due_schedule_fires_in_a_tick_and_tells_it(api: Gateway) -> None:
    made = put(api, cron="* * * * *", timezone="UTC")
    assert tick(api)["fire"]["counts"]["fired"] in (1, 2)
    first = jobs(api)[0]
    assert first["scheduled_job_id"] == made["id"]
    assert datetime.fromisoformat(first["scheduled_for"]) == datetime.fromisoformat(made["next_run_at"])
    assert first["run_at"] == first["scheduled_for"]
    told = api.get(f"{PATH}/events").json["items"][-1]
    assert (told["kind"], told["scheduled_at"], told["job_id"]) == ("fired", made["next_run_at"], first["id"])
    listed = api.get("/v1/jobs", query={"scheduled_job_id": made["id"]}).json["items"]
    assert {job["id"] for job in listed} == {job["id"] for job in jobs(api)}


def test_pause_takes_back_what_was_made_ready(api: Gateway) -> None:
    put(api, cron="* * * * *", timezone="UTC")
    tick(api)
    api.post(f"{PATH}/pause")
    assert {job["status"] for job in jobs(api)} == {"cancelled"}
    assert {job["final_reason"] for job in jobs(api)} == {"schedule_paused"}
    assert api.get(f"{PATH}/events").json["items"][0]["kind"] == "cancelled"


def test_delete_takes_back_what_was_made_ready(api: Gateway) -> None:
    put(api, cron="* * * * *", timezone="UTC")
    tick(api)
    assert api.request("DELETE", PATH).status == 204
    assert {job["final_reason"] for job in jobs(api)} == {"schedule_deleted"}
    assert api.get(PATH).status == 404
    assert api.request("DELETE", PATH).status == 404


def test_names_with_slashes_reach_every_verb(api: Gateway) -> None:
    put(api, "team/a/nightly")
    for path in ("team/a/nightly", "team%2Fa%2Fnightly"):
        assert api.get(f"/v1/schedules/{path}").json["name"] == "team/a/nightly"
        assert api.get(f"/v1/schedules/{path}/events").json == {"items": [], "next_cursor": None}
        assert len(api.get(f"/v1/schedules/{path}/preview").json["fires"]) == 10
        assert api.post(f"/v1/schedules/{path}/pause").json["is_paused"] is True
    refused = api.request("PUT", "/v1/schedules/team/events", DAILY)
    assert refused.status == 422
    assert refused.json["errors"][0]["loc"] == ["name"]


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"cron": "*/90 * * * *"}, ["cron"]),
    ({"cron": "0 0 30 2 *"}, ["cron"]),
    ({"cron": 5}, ["cron"]),
    ({"cron": None}, ["cron"]),
    ({"every_ms": 60_000}, ["cron"]),
    ({"cron": None, "every_ms": 999}, ["every_ms"]),
    ({"cron": None, "every_ms": 1.5}, ["every_ms"]),
    ({"timezone": "Europe/Berlinn"}, ["timezone"]),
    ({"timezone": "+02:00"}, ["timezone"]),
    ({"on_missed": "twice"}, ["on_missed"]),
    ({"on_missed": "backfill"}, ["backfill_limit"]),
    ({"on_missed": "backfill", "backfill_limit": 1_001}, ["backfill_limit"]),
    ({"overlap": "deny"}, ["overlap"]),
    ({"on_gap": "later"}, ["on_gap"]),
    ({"starts_at": "2030-01-01T00:00:00"}, ["starts_at"]),
    ({"starts_at": "2030-01-02T00:00:00Z", "ends_at": "2030-01-01T00:00:00Z"}, ["ends_at"]),
    ({"jitter_ms": -1}, ["jitter_ms"]),
    ({"colour": "red"}, ["colour"]),
    ({"job": {"payload": {}}}, ["job", "job_type"]),
    ({"job": "report"}, ["job"]),
    ({"job": {"job_type": "t", "priority": 99_999}}, ["job", "priority"]),
    ({"job": {"job_type": "t", "queue": "nowhere"}}, ["job", "queue"]),
    ({"job": {"job_type": "t", "retry_policy": "nobody"}}, ["job", "retry_policy"]),
    ({"job": {"job_type": "t", "payload": [1]}}, ["job", "payload"]),
    ({"job": {"job_type": "t", "payload": {"x": "{{schedule}}" * 21_000}}}, ["job", "payload"]),
    ({"job": {"job_type": "t", "payload": {"x": "a\x00"}}}, ["job", "payload", "x"]),
    ({"job": {"job_type": "t", "run_at": "2030-01-01T00:00:00Z"}}, ["job", "run_at"]),
    ({"job": {"job_type": "t", "idempotency_key": "k"}}, ["job", "idempotency_key"]),
]
ONLY_OF_A_WHOLE = ({"every_ms": 60_000}, {"job": {"payload": {}}})


@pytest.mark.parametrize(("changes", "loc"), REFUSED)
def test_a_refused_put_names_the_field_and_stores_nothing(api: Gateway, changes: dict[str, Any], loc: list[str]) -> None:
    refused = api.request("PUT", PATH, {**DAILY, **changes})
    assert refused.status == 422, refused.text
    assert loc in [error["loc"] for error in refused.json["errors"]]
    assert not row(api)
    put(api)
    before = row(api)
    assert api.request("PUT", PATH, {**DAILY, **changes}).status == 422
    assert row(api) == before


@pytest.mark.parametrize("changes", [changes for changes, _ in REFUSED if changes not in ONLY_OF_A_WHOLE])
def test_a_refused_patch_changes_nothing(api: Gateway, changes: dict[str, Any]) -> None:
    put(api)
    before = row(api)
    assert api.request("PATCH", PATH, changes).status == 422
    assert row(api) == before


def test_a_refused_expression_tells_the_part_and_a_way_out(api: Gateway) -> None:
    refused = api.request("PUT", PATH, {**DAILY, "cron": "0 9 ? * MON-FRI *"}).json
    assert refused["code"] == "validation_error"
    assert "AWS" in refused["hint"]
    assert refused["part"] == "*"
    assert refused["errors"][0]["loc"] == ["cron"]


@pytest.mark.parametrize(
    "body", [{}, {"cron": "* * * * *", "every_ms": 1_000}, {"cron": "* * * * *", "n": 1_001}, {"cron": "* * * * *", "n": 0}]
)
def test_a_preview_that_cannot_be_is_refused(api: Gateway, body: dict[str, Any]) -> None:
    assert api.post("/v1/schedules/preview", body).status == 422


def test_a_preview_of_an_interval_counts_from_after(api: Gateway) -> None:
    found = api.post("/v1/schedules/preview", {"every_ms": 90_000, "after": "2030-01-01T00:00:00Z", "n": 2}).json
    assert found["fires"] == ["2030-01-01T00:01:30Z", "2030-01-01T00:03:00Z"]
    assert found["transitions"] == []


def test_a_preview_shows_the_next_clock_changes(api: Gateway) -> None:
    found = api.post("/v1/schedules/preview", {"cron": "@daily", "timezone": "Europe/Berlin", "after": "2027-01-01T00:00:00Z", "n": 1}).json
    assert found["transitions"][0] == {
        "at": "2027-03-28T01:00:00Z",
        "kind": "gap",
        "offset_before": "+01:00",
        "offset_after": "+02:00",
        "local_before": "2027-03-28T02:00:00",
        "local_after": "2027-03-28T03:00:00",
    }


def test_another_project_sees_nothing_of_it(api: Gateway) -> None:
    put(api)
    _, stranger = found(api.dsn)
    for method, path in [
        ("GET", PATH),
        ("DELETE", PATH),
        ("POST", f"{PATH}/pause"),
        ("POST", f"{PATH}/trigger"),
        ("GET", f"{PATH}/events"),
    ]:
        assert api.request(method, path, key=stranger).status == 404
    assert api.get("/v1/schedules", key=stranger).json["items"] == []


def test_scopes_divide_reading_operating_and_changing(api: Gateway) -> None:
    put(api)
    reader, operator = add_key(api.dsn, api.project_id, "read"), add_key(api.dsn, api.project_id, "operate")
    assert api.get(PATH, key=reader).status == 200
    assert api.post(f"{PATH}/pause", key=reader).status == 403
    assert api.post(f"{PATH}/pause", key=operator).status == 200
    assert api.request("PUT", PATH, DAILY, key=operator).status == 403
    assert api.request("DELETE", PATH, key=operator).status == 403


def test_lists_go_on_by_cursor(api: Gateway) -> None:
    for name in "cab":
        put(api, name)
    first = api.get("/v1/schedules", query={"limit": 2}).json
    second = api.get("/v1/schedules", query={"limit": 2, "cursor": first["next_cursor"]}).json
    assert [s["name"] for page in (first, second) for s in page["items"]] == ["a", "b", "c"]
    assert second["next_cursor"] is None


def test_the_zone_data_release_is_told_by_version_and_readiness(api: Gateway) -> None:
    assert api.get("/readyz", key=None).json["tzdata"] == zone_data_release()
    assert api.get("/v1/version").json["tzdata"] == zone_data_release()
