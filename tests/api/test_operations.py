"""Bulk operations and the removal of queues over the API."""

from __future__ import annotations

from typing import Any

import pytest

from api.gateway import Gateway, Reply
from harness.databases import Databases


@pytest.fixture(scope="module")
def databases(quiet_databases: Databases) -> Databases:
    """A queue is removed once all transactions of the server that may have seen it open are over."""
    return quiet_databases


def planned(gateway: Gateway, action: str, **query: Any) -> dict[str, Any]:
    reply = gateway.post("/v1/operations", {"action": action, "filter": query})
    assert reply.status == 201, reply.text
    found: dict[str, Any] = reply.json
    return found


def ticked(gateway: Gateway) -> dict[str, Any]:
    phases = gateway.post("/v1/tick", {}).json["phases"]
    assert [phase["error"] for phase in phases if phase["error"]] == []
    found: dict[str, Any] = next(phase for phase in phases if phase["name"] == "operations")
    return found


def moved(gateway: Gateway, operation: dict[str, Any], verb: str, **body: Any) -> Reply:
    return gateway.post(f"/v1/operations/{operation['id']}/{verb}", body)


def test_plan_apply_and_look(gateway: Gateway) -> None:
    ids = [gateway.enqueue(tags=["x"]) for _ in range(3)]
    gateway.enqueue()
    plan = planned(gateway, "cancel", tag="x", state="queued")
    assert (plan["status"], plan["estimate"], plan["affected"]) == ("planned", {"count": 3, "approximate": False}, 0)
    assert (plan["filter"], plan["states"]) == ({"tag": ["x"], "state": ["queued"]}, ["queued"])
    assert min(plan["sample"]) in ids
    assert ticked(gateway)["counts"]["jobs"] == 0
    assert moved(gateway, plan, "apply").status == 202
    counts = ticked(gateway)["counts"]
    assert (counts["jobs"], counts["operations"]) == (3, 1)
    done = gateway.get(f"/v1/operations/{plan['id']}").json
    assert (done["status"], done["affected"], done["skipped"], done["total"], done["progress"]) == ("completed", 3, 0, 3, 1.0)
    assert done["actions"] == ["undo"]
    assert {gateway.get(f"/v1/jobs/{job_id}").json["state"] for job_id in ids} == {"cancelled"}
    assert [one["id"] for one in gateway.get("/v1/operations").json["items"]] == [plan["id"]]


def test_without_a_dry_run_it_begins_at_once(gateway: Gateway) -> None:
    gateway.enqueue(hold=True)
    reply = gateway.post("/v1/operations", {"action": "promote", "filter": {"queue": "default"}, "dry_run": False})
    assert (reply.status, reply.json["status"], reply.json["total"]) == (201, "applying", 1)
    ticked(gateway)
    assert gateway.get(f"/v1/operations/{reply.json['id']}").json["affected"] == 1


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"action": "retry", "filter": {}}, ["filter"]),
        ({"action": "retry"}, ["filter"]),
        ({"action": "retry", "filter": {"stat": ["dead_letter"]}}, ["filter", "stat"]),
        ({"action": "retry", "filter": {"state": ["dead"]}}, ["filter", "state", 0]),
        ({"action": "retry", "filter": {"state": []}}, ["filter", "state"]),
        ({"action": "retry", "filter": {"state": ["queued"]}}, ["filter", "state"]),
        ({"action": "retry", "filter": {"queue": "nowhere"}}, ["filter", "queue"]),
        ({"action": "retry", "filter": {"limit": 5}}, ["filter", "limit"]),
        ({"action": "explode", "filter": {"queue": "default"}}, ["action"]),
        ({"action": "remove_queue", "filter": {"queue": "default"}}, ["action"]),
        ({"action": "retry", "filter": {"priority": True}}, ["filter", "priority"]),
    ],
)
def test_an_empty_or_unknown_filter_is_refused(gateway: Gateway, body: dict[str, Any], loc: list[Any]) -> None:
    reply = gateway.post("/v1/operations", body)
    assert (reply.status, reply.json["code"]) == (422, "validation_error")
    assert reply.json["errors"][0]["loc"][: len(loc)] == loc, reply.text


def test_numbers_in_a_filter_are_numbers(gateway: Gateway) -> None:
    gateway.enqueue(priority=-5)
    assert planned(gateway, "cancel", priority=-5)["estimate"]["count"] == 1


def test_drift_is_a_conflict_that_says_how_much(gateway: Gateway) -> None:
    for _ in range(10):
        gateway.enqueue()
    plan = planned(gateway, "cancel", state=["queued"])
    gateway.enqueue()
    gateway.enqueue()
    reply = moved(gateway, plan, "apply")
    assert (reply.status, reply.json["code"]) == (409, "plan_drifted")
    assert "12 jobs now" in reply.json["detail"]
    assert moved(gateway, plan, "apply", allow_drift=True).status == 202


def test_abort_and_apply_again(gateway: Gateway) -> None:
    gateway.enqueue()
    plan = planned(gateway, "cancel", queue="default")
    assert moved(gateway, plan, "abort").json["status"] == "aborted"
    assert moved(gateway, plan, "abort").status == 200
    reply = moved(gateway, plan, "apply")
    assert (reply.status, reply.json["code"]) == (409, "invalid_transition")
    assert moved(gateway, plan, "undo").status == 202  # nothing was done: nothing is put back


def test_every_step_is_in_the_audit_log(gateway: Gateway) -> None:
    gateway.enqueue()
    plan = planned(gateway, "cancel", queue="default")
    moved(gateway, plan, "apply")
    moved(gateway, plan, "apply")
    ticked(gateway)
    moved(gateway, plan, "undo")
    ticked(gateway)
    rows = gateway.sql(
        "select jsonb_agg(jsonb_build_array(action, before ->> 'status', after ->> 'status') order by id)"
        f" from tidemill.audit_log where target_kind = 'operation' and target_id = '{plan['id']}'"
    )
    assert rows[0][0] == [
        ["operations.create", None, "planned"],
        ["operations.apply", "planned", "applying"],
        ["operations.completed", "applying", "completed"],
        ["operations.undo", "completed", "undoing"],
        ["operations.undone", "undoing", "undone"],
    ]


def test_undo_puts_back_what_a_cancel_took(gateway: Gateway) -> None:
    job_id = gateway.enqueue(delay_ms=60_000)
    before = gateway.get(f"/v1/jobs/{job_id}").json
    plan = planned(gateway, "cancel", queue="default")
    moved(gateway, plan, "apply")
    ticked(gateway)
    assert moved(gateway, plan, "undo").json["status"] == "undoing"
    ticked(gateway)
    done = gateway.get(f"/v1/operations/{plan['id']}").json
    assert (done["status"], done["undo"]["restored"], done["actions"]) == ("undone", 1, [])
    after = gateway.get(f"/v1/jobs/{job_id}").json
    assert {k: v for k, v in after.items() if k != "updated_at"} == {k: v for k, v in before.items() if k != "updated_at"}
    assert moved(gateway, plan, "undo").json["status"] == "undone"


def test_what_cannot_be_undone_says_so(gateway: Gateway) -> None:
    plan = planned(gateway, "delete", queue="default")
    moved(gateway, plan, "apply")
    ticked(gateway)
    reply = moved(gateway, plan, "undo")
    assert (reply.status, reply.json["code"]) == (409, "invalid_transition")
    assert "only cancel and discard" in reply.json["detail"]


def test_an_empty_queue_is_gone_at_once(gateway: Gateway) -> None:
    gateway.post("/v1/queues", {"name": "q/1"})
    assert gateway.request("DELETE", "/v1/queues/q%2F1").status == 204
    assert gateway.get("/v1/queues/q%2F1").status == 404
    assert gateway.request("DELETE", "/v1/queues/q%2F1").status == 404
    assert gateway.post("/v1/queues", {"name": "q/1"}).status == 201


def test_a_queue_with_jobs_stays_and_takes_more(gateway: Gateway) -> None:
    gateway.enqueue()
    reply = gateway.request("DELETE", "/v1/queues/default")
    assert (reply.status, reply.json["code"]) == (409, "queue_not_empty")
    assert "holds 1 job," in reply.json["detail"] and "?force=true" in reply.json["detail"]
    gateway.enqueue()


def test_force_closes_empties_and_removes_a_queue(gateway: Gateway) -> None:
    gateway.post("/v1/queues", {"name": "old"})
    gateway.post("/v1/queues", {"name": "new"})
    worker = gateway.worker(queues=["old"])
    running = gateway.enqueue(queue="old")
    (job,) = gateway.claim(worker, queues=["old"])
    for spec in ({}, {"hold": True}, {"delay_ms": 60_000}, {"unique": {}}):
        gateway.enqueue(queue="old", **spec)
    kept = gateway.enqueue(queue="new")
    reply = gateway.request("DELETE", "/v1/queues/old", query={"force": "true"})
    assert (reply.status, reply.json["action"], reply.json["status"], reply.json["total"]) == (202, "remove_queue", "applying", 5)
    assert gateway.request("DELETE", "/v1/queues/old", query={"force": "true"}).json["id"] == reply.json["id"]
    refused = gateway.post("/v1/jobs", {"job_type": "t", "queue": "old"})
    assert refused.status == 422 and "closed to new jobs" in refused.text
    ticked(gateway)
    found = gateway.get(f"/v1/operations/{reply.json['id']}").json
    assert (found["status"], found["affected"]) == ("applying", 4)
    assert gateway.get(f"/v1/jobs/{running}").json["lease"]["cancel_requested_at"] is not None
    assert gateway.ack(job, "cancelled")["status"] == "ok"
    ticked(gateway)
    found = gateway.get(f"/v1/operations/{reply.json['id']}").json
    assert (found["status"], found["affected"], found["skipped"], found["total"]) == ("completed", 5, 0, 5)
    assert gateway.get("/v1/queues/old").status == 404
    assert gateway.get(f"/v1/jobs/{running}").status == 404
    assert gateway.get(f"/v1/jobs/{kept}").json["state"] == "queued"


def test_a_removal_that_is_aborted_opens_the_queue_again(gateway: Gateway) -> None:
    gateway.enqueue()
    reply = gateway.request("DELETE", "/v1/queues/default", query={"force": "true"})
    assert moved(gateway, reply.json, "abort").json["status"] == "aborted"
    assert gateway.get("/v1/queues/default").json["is_closed"] is False
    gateway.enqueue()


def test_a_schedule_of_a_removed_queue_says_so_and_harms_no_other(gateway: Gateway) -> None:
    gateway.post("/v1/queues", {"name": "old"})
    for name, queue in (("lost", "old"), ("kept", "default")):
        reply = gateway.request("PUT", f"/v1/schedules/{name}", {"every_ms": 1_000, "job": {"job_type": "t", "queue": queue}})
        assert reply.status < 300, reply.text
    gateway.sql("update tidemill.scheduled_jobs set next_run_at = now() - interval '1 second' returning 1")
    reply = gateway.request("DELETE", "/v1/queues/old", query={"force": "true"})
    assert reply.status == 202, reply.text
    for _ in range(3):
        ticked(gateway)
    assert gateway.get("/v1/queues/old").status == 404
    assert gateway.get(f"/v1/operations/{reply.json['id']}").json["status"] == "completed"
    lost = gateway.get("/v1/schedules/lost").json
    assert "queue 'old' is closed to new jobs: it is being removed" in lost["error"]
    assert gateway.get("/v1/jobs", query={"job_type": "t"}).json["items"]
