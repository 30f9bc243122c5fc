"""Quarantine over HTTP and on the command line (API.md §4)."""

from __future__ import annotations

from typing import Any

import pytest

from api.gateway import Gateway, checked, found

BOMB = {"payload": {"n": 1}, "retry_policy": {"strategy": "fixed", "base_delay_ms": 0, "jitter": False}}


def blown_up(gateway: Gateway, **fields: Any) -> str:
    """A job that has crashed three times; its id."""
    job_id = gateway.enqueue("bomb", **BOMB | fields)
    for _ in range(3):
        [job] = [job for job in gateway.claim() if job["id"] == job_id]
        result = gateway.ack(job, "crash", error={"class": "Killed", "message": "signal 9"}, exit_code=-9)
    assert result["state"] == "quarantined"
    return job_id


def test_a_crashing_job_is_listed_shown_and_released(gateway: Gateway) -> None:
    job_id = blown_up(gateway)
    twin = gateway.post("/v1/jobs", {"job_type": "bomb", **BOMB})
    assert (twin.status, twin.json["job"]["state"]) == (201, "quarantined")
    job = gateway.get(f"/v1/jobs/{job_id}").json
    assert job["reason"] == "crash"
    assert {"release", "discard", "cancel"} <= set(job["actions"])
    [row] = gateway.get("/v1/quarantine").json["items"]
    assert row["fingerprint"] == job["fingerprint"]
    assert (row["status"], row["losses"], row["last_exit_code"], row["jobs"]) == ("quarantined", 3, -9, {"count": 2, "approximate": False})
    assert gateway.get(f"/v1/quarantine/{row['fingerprint']}").json == row | {"sample": [job_id, twin.json["job"]["id"]]}
    listed = gateway.get("/v1/jobs", query={"fingerprint": row["fingerprint"], "state": "quarantined"}).json["items"]
    assert [j["id"] for j in listed] == [twin.json["job"]["id"], job_id]
    assert [b["reason"] for b in gateway.get(f"/v1/jobs/{job_id}/explain").json["blocked_by"]] == ["quarantine"]
    answer = gateway.post(f"/v1/quarantine/{row['fingerprint'].upper()}/release").json
    assert answer == {"fingerprint": row["fingerprint"], "moved": 2, "is_done": True, "quarantine": None}
    assert {j["id"] for j in gateway.claim()} == {job_id, twin.json["job"]["id"]}
    assert [x["exit_code"] for x in gateway.get(f"/v1/jobs/{job_id}/executions").json["items"]] == [-9, -9, -9]


def test_discard_cancels_and_stays_in_force(gateway: Gateway) -> None:
    job_id = blown_up(gateway)
    key = gateway.get(f"/v1/jobs/{job_id}").json["fingerprint"]
    answer = gateway.post(f"/v1/quarantine/{key}/discard", {}).json
    assert answer["moved"] == 1
    gateway.post("/v1/tick")
    shown = gateway.get(f"/v1/quarantine/{key}").json
    assert (shown["status"], shown["is_swept"], shown["jobs"]["count"]) == ("quarantined", True, 0)
    assert gateway.get(f"/v1/jobs/{job_id}").json["state"] == "cancelled"
    assert gateway.post("/v1/jobs", {"job_type": "bomb", **BOMB}).json["job"]["state"] == "quarantined"


def test_a_tick_tells_what_it_set_aside(gateway: Gateway) -> None:
    phases = {phase["name"]: phase for phase in gateway.post("/v1/tick").json["phases"]}
    assert phases["quarantine"]["counts"] == {"forgotten": 0}


def test_both_verbs_are_in_the_audit_log(gateway: Gateway) -> None:
    key = gateway.get(f"/v1/jobs/{blown_up(gateway)}").json["fingerprint"]
    for verb in ("discard", "release"):
        gateway.post(f"/v1/quarantine/{key}/{verb}")
    notes = gateway.get("/v1/audit").json["items"]
    assert [(n["action"], n["target_id"]) for n in notes[:2]] == [("quarantine.release", key), ("quarantine.discard", key)]


def test_pages_hold_each_fingerprint_once(gateway: Gateway) -> None:
    for n in range(5):
        blown_up(gateway, payload={"n": n})
    seen, cursor = [], None
    while True:
        page = gateway.get("/v1/quarantine", query={"limit": 2, **({"cursor": cursor} if cursor else {})}).json
        seen += [item["quarantined_at"] for item in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert len(set(seen)) == 5
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize("key", ["0" * 64, "nonsense", "%00", "053bd440-f829-4ee7-b7e5-8c6981ca163d"])
def test_what_is_not_quarantined_is_not_found(gateway: Gateway, key: str) -> None:
    for method, path in (("GET", ""), ("POST", "/release"), ("POST", "/discard")):
        assert checked(gateway.request(method, f"/v1/quarantine/{key}{path}")).status == 404


def test_another_projects_quarantine_is_not_found(gateway: Gateway) -> None:
    key = gateway.get(f"/v1/jobs/{blown_up(gateway)}").json["fingerprint"]
    stranger = Gateway(gateway.dsn, project=found(gateway.dsn))
    assert stranger.get("/v1/quarantine").json["items"] == []
    assert stranger.post(f"/v1/quarantine/{key}/release").status == 404
    stranger.close()
    assert gateway.get(f"/v1/quarantine/{key}").json["status"] == "quarantined"
