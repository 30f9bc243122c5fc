"""The dashboard in one call, and workers with their load."""

from __future__ import annotations

from typing import Any

import pytest

from api.gateway import Gateway
from tidemill.http import snapshot as snapshots


def shown(gateway: Gateway, **query: Any) -> dict[str, Any]:
    reply = gateway.get("/v1/snapshot", query=query)
    assert reply.status == 200, reply.text
    found: dict[str, Any] = reply.json
    return found


def ids(part: dict[str, Any]) -> list[str]:
    return [job["id"] for job in part["items"]]


def test_an_empty_project_has_four_empty_lists(gateway: Gateway) -> None:
    none = {"items": [], "page": 1, "per_page": 20, "has_more": False, "count": {"count": 0, "approximate": False}}
    assert shown(gateway) == dict.fromkeys(("enqueued", "running", "completed", "failed"), none)


def test_each_list_has_its_jobs_in_its_order(gateway: Gateway) -> None:
    ends = [gateway.enqueue(retention_ms=10**9 if n == 1 else None) for n in range(4)]
    jobs = {job["id"]: job for job in gateway.claim()}
    gateway.ack(jobs[ends[0]], "complete")
    gateway.ack(jobs[ends[1]], "complete")
    gateway.ack(jobs[ends[2]], "fail", retryable=False)
    gateway.ack(jobs[ends[3]], "fail", retryable=False)
    running = [gateway.enqueue(), gateway.enqueue()]
    gateway.claim()
    later, soon, now = gateway.enqueue(delay_ms=10**7), gateway.enqueue(delay_ms=10**6), gateway.enqueue()
    found = shown(gateway)
    assert ids(found["enqueued"]) == [now, soon, later]
    assert ids(found["running"]) == running[::-1]
    assert ids(found["completed"]) == [ends[1], ends[0]]
    assert ids(found["failed"]) == [ends[3], ends[2]]
    assert [part["count"]["count"] for part in found.values()] == [3, 2, 2, 2]
    gateway.post(f"/v1/dead-letters/{ends[3]}/resolve", {"action": "discard"})
    gateway.sql("update tidemill.job_executions set finished_at = now() - interval '25 hours' where job_id = %s", [ends[0]])
    found = shown(gateway)
    assert (ids(found["completed"]), ids(found["failed"])) == ([ends[1]], [ends[2]])


def test_pages_are_turned_one_by_one_and_end(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [result["job_id"] for result in gateway.post("/v1/jobs/bulk", {"jobs": [{"job_type": "t"}] * 25}).json["results"]]
    seen: list[str] = []
    for page in (1, 2, 3):
        part = shown(gateway, enqueued_page=page, per_page=10)["enqueued"]
        seen += ids(part)
        assert (part["page"], part["per_page"], part["has_more"]) == (page, 10, page < 3)
    assert sorted(seen) == sorted(made)
    assert ids(shown(gateway, enqueued_page=4, per_page=10)["enqueued"]) == []
    monkeypatch.setattr(snapshots, "COUNTED", 11)
    assert shown(gateway)["enqueued"]["count"] == {"count": 11, "approximate": True}
    refused = gateway.get("/v1/snapshot", query={"failed_page": 51, "per_page": 100})
    assert (refused.status, refused.json["errors"][0]["loc"]) == (422, ["query", "failed_page"])
    for query in ({"per_page": "0"}, {"per_page": "101"}, {"running_page": "0"}, {"page": "1"}):
        assert gateway.get("/v1/snapshot", query=query).status == 422


def test_a_snapshot_shows_no_other_project(gateway: Gateway) -> None:
    gateway.enqueue()
    gateway.claim()
    gateway.enqueue()
    other = Gateway(gateway.dsn)
    try:
        assert [part["count"]["count"] for part in shown(other).values()] == [0, 0, 0, 0]
        assert [part["items"] for part in shown(other).values()] == [[], [], [], []]
    finally:
        other.close()


def test_workers_are_filtered_and_their_load_is_told(gateway: Gateway) -> None:
    gateway.post("/v1/queues", {"name": "slow"})
    old = gateway.worker(name="a", version="1.0", max_concurrency=4)
    new = gateway.worker("slow", name="b", version="2.0", max_concurrency=8)
    dead = gateway.worker(name="c", version="2.0", max_concurrency=16)
    gateway.post(f"/v1/workers/{old}/heartbeat", {"leases": [], "active_job_count": 3})
    gateway.sql("update tidemill.workers set last_seen_at = now() - interval '1 hour' where id = %s", [dead])

    def found(**query: Any) -> list[str]:
        reply = gateway.get("/v1/workers", query=query)
        assert reply.status == 200, reply.text
        return [worker["id"] for worker in reply.json["items"]]

    assert found() == [old, new, dead]
    assert found(state="live") == [old, new]
    assert found(state="stale") == [dead]
    assert found(version="2.0") == [new, dead]
    assert found(version="2.0", state="live") == [new]
    assert found(queue="slow") == [new]
    assert found(queue="nothing") == []
    assert found(name="a") == [old]
    assert gateway.get("/v1/workers", query={"state": "dead"}).status == 422
    load = gateway.get("/v1/workers", query={"limit": 1}).json["load"]
    assert load == {
        "live": 2, "stale": 1, "active_jobs": 3, "room": 12,
        "versions": [{"version": "1.0", "live": 1, "stale": 0}, {"version": "2.0", "live": 1, "stale": 1}],
    }  # fmt: skip
