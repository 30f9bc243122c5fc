"""Workers over HTTP: who may register, what is seen of one, what an operator tells it, and how it goes."""

from uuid import uuid4

import pytest

from api.gateway import Gateway


@pytest.mark.parametrize("queues", [["nowhere"], ["default", "nowhere"], ["nowhere", "default", "default"]])
def test_a_worker_of_an_unknown_queue_is_refused_and_not_stored(gateway: Gateway, queues: list[str]) -> None:
    reply = gateway.post("/v1/workers", {"name": "w", "queues": queues})
    assert (reply.status, reply.json["code"]) == (404, "not_found")
    assert "queue 'nowhere'" in reply.json["detail"]
    assert gateway.get("/v1/workers").json["items"] == []


def test_a_queue_named_twice_counts_once(gateway: Gateway) -> None:
    worker = gateway.post("/v1/workers", {"name": "w", "queues": ["default", "default"], "lease_ms": 60_000})
    assert worker.status == 201
    assert worker.json["lease_ms"] == 60_000
    assert 0 < worker.json["heartbeat_interval_ms"] <= 20_000
    assert gateway.get(f"/v1/workers/{worker.json['worker_id']}").json["queues"] == ["default"]


@pytest.mark.parametrize("word", ["quiet", "resume", "restart", "terminate"])
def test_a_command_is_heard_once_by_the_next_heartbeat(gateway: Gateway, word: str) -> None:
    worker = gateway.worker()
    assert gateway.post(f"/v1/workers/{worker}/command", {"command": word}).status == 200
    assert gateway.post(f"/v1/workers/{worker}/heartbeat", {}).json["command"] == word
    assert gateway.post(f"/v1/workers/{worker}/heartbeat", {}).json["command"] is None


def test_wrong_commands_and_unknown_workers_are_refused(gateway: Gateway) -> None:
    worker = gateway.worker()
    reply = gateway.post(f"/v1/workers/{worker}/command", {"command": "explode"})
    assert (reply.status, reply.json["errors"][0]["loc"]) == (422, ["command"])
    for method, path, body in [("POST", "/command", {"command": "quiet"}), ("GET", "", None), ("DELETE", "", None)]:
        assert gateway.request(method, f"/v1/workers/{uuid4()}{path}", body).status == 404


def test_a_worker_that_leaves_gives_its_jobs_back_without_an_attempt_spent(gateway: Gateway) -> None:
    job_id, worker = gateway.enqueue(), gateway.worker()
    (job,) = gateway.claim(worker)
    assert gateway.request("DELETE", f"/v1/workers/{worker}").json == {"released": 1}
    shown = gateway.get(f"/v1/jobs/{job_id}").json
    assert (shown["state"], shown["attempt_count"]) == ("queued", 0)
    assert gateway.ack(job, "complete")["status"] == "lease_lost"
    assert gateway.request("DELETE", f"/v1/workers/{worker}").status == 404
