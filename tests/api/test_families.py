"""Dependencies and batches over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from api.gateway import Gateway, Reply, checked


def done(gateway: Gateway, job_id: str, result: Any = None) -> None:
    [job] = [job for job in gateway.claim() if job["id"] == job_id]
    assert gateway.ack(job, "complete", result=result)["state"] == "completed"


def bulk(gateway: Gateway, jobs: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    reply = gateway.post("/v1/jobs/bulk", {"jobs": [{"job_type": "t", **job} for job in jobs], **more})
    assert reply.status == 200, reply.text
    results: list[dict[str, Any]] = reply.json["results"]
    return results


def batch(gateway: Gateway, **fields: Any) -> dict[str, Any]:
    reply = gateway.post("/v1/batches", fields)
    assert reply.status == 201, reply.text
    made: dict[str, Any] = reply.json
    return made


def refused(reply: Reply, *loc: Any) -> str:
    assert checked(reply).status == 422, reply.text
    error = reply.json["errors"][0]
    assert error["loc"] == list(loc)
    return str(error["msg"])


def test_a_job_shows_its_parents_and_children(gateway: Gateway) -> None:
    parent = gateway.enqueue(job_type="reap.wheat")
    child = gateway.enqueue(job_type="bake.bread", depends_on=[parent.upper(), parent], on_parent_failure="run")
    shown = gateway.get(f"/v1/jobs/{child}").json
    assert (shown["state"], shown["pending_parents"], shown["on_parent_failure"]) == ("pending", 1, "run")
    assert (shown["parents"], shown["children"]) == ([{"id": parent, "state": "queued", "job_type": "reap.wheat"}], [])
    assert gateway.get(f"/v1/jobs/{parent}").json["children"] == [{"id": child, "state": "pending", "job_type": "bake.bread"}]
    done(gateway, parent)
    gateway.request("DELETE", f"/v1/jobs/{parent}")
    assert gateway.get(f"/v1/jobs/{child}").json["parents"] == [{"id": parent, "state": None, "job_type": None}]


def test_refs_tie_the_jobs_of_one_call_together(gateway: Gateway) -> None:
    results = bulk(gateway, [{"ref": "a"}, {"depends_on": [{"ref": "a"}], "ref": "b"}, {"depends_on": [{"ref": "a"}, {"ref": "b"}]}])
    assert [result["state"] for result in results] == ["queued", "pending", "pending"]
    done(gateway, results[0]["job_id"])
    done(gateway, results[1]["job_id"])
    done(gateway, results[2]["job_id"])


@pytest.mark.parametrize("parent", ["x", "", 7, None, {}, {"ref": ""}, {"ref": "r" * 201}, {"ref": "a", "id": "b"}, ["a"]])
def test_what_is_no_parent_is_refused_by_its_place(gateway: Gateway, parent: Any) -> None:
    text = refused(gateway.post("/v1/jobs", {"job_type": "t", "depends_on": [parent]}), "depends_on", 0)
    assert text == 'must be a job id, or {"ref": "…"} for a job of the same call'


def test_b055_strangers_circles_and_too_many_parents_are_422(gateway: Gateway) -> None:
    stranger = str(uuid4())
    assert stranger in refused(gateway.post("/v1/jobs", {"job_type": "t", "depends_on": [stranger]}), "jobs", 0, "depends_on")
    refused(gateway.post("/v1/jobs", {"job_type": "t", "depends_on": [str(uuid4())] * 1_001}), "depends_on")
    circle = [{"job_type": "t", "ref": "a", "depends_on": [{"ref": "b"}]}, {"job_type": "t", "ref": "b", "depends_on": [{"ref": "a"}]}]
    assert "circle" in refused(gateway.post("/v1/jobs/bulk", {"jobs": circle}), "jobs", 0, "depends_on")
    refused(gateway.post("/v1/jobs", {"job_type": "t", "on_parent_failure": "maybe"}), "on_parent_failure")
    assert gateway.get("/v1/jobs").json["items"] == []


def test_a_child_of_a_malformed_job_is_refused_with_it_and_the_rest_goes_in(gateway: Gateway) -> None:
    results = bulk(gateway, [{"ref": "bad", "priority": "high"}, {"depends_on": [{"ref": "bad"}]}, {}], atomic=False)
    assert ["error" in result for result in results] == [True, True, False]
    assert results[1]["error"]["loc"] == ["jobs", 1, "depends_on"]


def test_b056_a_batch_from_its_first_job_to_its_callback(gateway: Gateway) -> None:
    made = batch(gateway, name="import", jobs=[{"job_type": "m"}] * 2, callbacks={"on_success": {"job_type": "sum", "payload": 1}})
    batch_id = made["batch"]["id"]
    assert [result["state"] for result in made["results"]] == ["queued"] * 2
    assert (made["batch"]["status"], made["batch"]["total"], made["batch"]["pending"]) == ("open", 2, 2)
    more = gateway.post(f"/v1/batches/{batch_id}/jobs", {"jobs": [{"job_type": "m"}]}).json
    assert (more["created"], more["failed"]) == (1, 0)
    for job in gateway.claim():
        gateway.ack(job, "complete")
    assert gateway.claim() == []
    sealed = gateway.post(f"/v1/batches/{batch_id}/seal")
    assert (sealed.status, sealed.json["status"], sealed.json["fired"]) == (200, "completed", ["on_success"])
    assert gateway.post(f"/v1/batches/{batch_id}/seal", {}).json == sealed.json
    [callback] = gateway.claim()
    members = gateway.post(f"/v1/jobs/{callback['id']}/parents", {"lease_token": callback["lease_token"]}).json["items"]
    ids = [result["job_id"] for result in (*made["results"], *more["results"])]
    assert members == [{"id": job_id, "state": "completed", "result": None} for job_id in sorted(ids)]
    assert (callback["job_type"], callback["payload"]) == ("sum", 1)
    assert callback["headers"] == {"tidemill-batch-id": batch_id, "tidemill-batch-callback": "on_success"}
    shown = gateway.get(f"/v1/batches/{batch_id}").json
    assert {name: shown[name] for name in ("name", "total", "pending", "completed", "failed", "cancelled")} == {
        "name": "import", "total": 3, "pending": 0, "completed": 3, "failed": 0, "cancelled": 0,
    }  # fmt: skip


def test_b056_an_empty_batch_ends_at_sealing_and_a_sealed_one_takes_no_jobs(gateway: Gateway) -> None:
    made = batch(gateway, seal=True)["batch"]
    assert made["status"] == "completed"
    reply = checked(gateway.post(f"/v1/batches/{made['id']}/jobs", {"jobs": [{"job_type": "m"}]}))
    assert (reply.status, reply.json["code"]) == (409, "invalid_transition")
    assert reply.json["detail"] == "a completed batch cannot take jobs"
    refused(gateway.post("/v1/jobs", {"job_type": "m", "batch_id": made["id"]}), "jobs", 0, "batch_id")


def test_b058_a_batch_is_cancelled_by_an_operator(gateway: Gateway) -> None:
    batch_id = batch(gateway, jobs=[{"job_type": "m"}] * 3, callbacks={"on_complete": {"job_type": "no"}})["batch"]["id"]
    [running] = gateway.claim(limit=1)
    reply = gateway.post(f"/v1/batches/{batch_id}/cancel")
    assert (reply.json["status"], reply.json["pending"], reply.json["cancelled"]) == ("cancelled", 1, 2)
    assert gateway.ack(running, "cancelled")["state"] == "cancelled"
    assert gateway.get(f"/v1/batches/{batch_id}").json["cancelled"] == 3
    ended = batch(gateway, seal=True)["batch"]["id"]
    assert checked(gateway.post(f"/v1/batches/{ended}/cancel")).status == 409


def test_batches_are_listed_newest_first_page_by_page(gateway: Gateway) -> None:
    ids = [batch(gateway, name=str(n))["batch"]["id"] for n in range(5)]
    first = gateway.get("/v1/batches", query={"limit": 2}).json
    second = gateway.get("/v1/batches", query={"limit": 3, "cursor": first["next_cursor"]}).json
    seen = [item["id"] for item in (*first["items"], *second["items"])]
    assert sorted(seen) == sorted(ids)
    assert seen == sorted(seen, reverse=True)
    assert second["next_cursor"] is None


def test_a_batchs_jobs_are_listed_by_its_id(gateway: Gateway) -> None:
    gateway.enqueue()
    made = batch(gateway, jobs=[{"job_type": "m"}] * 3)
    query = {"batch_id": made["batch"]["id"], "sort": "created_at"}
    members = [result["job_id"] for result in made["results"]]
    assert [item["id"] for item in gateway.get("/v1/jobs", query=query).json["items"]] == members
    gateway.request("POST", f"/v1/jobs/{members[0]}/cancel", {})
    for more, count in (({"state": "queued"}, 2), ({"state": "cancelled"}, 1), ({"sort": "run_at"}, 2), ({"job_type": "t"}, 0)):
        assert len(gateway.get("/v1/jobs", query={**query, **more}).json["items"]) == count


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"jobs": [{"job_type": "m"}, {"job_type": ""}]}, ("jobs", 1, "job_type")),
        ({"jobs": [{"job_type": "m", "queue": "nowhere"}]}, ("jobs", 0, "queue")),
        ({"jobs": [{"job_type": "m", "batch_id": str(uuid4())}]}, ("jobs", 0, "batch_id")),
        ({"callbacks": {"on_complete": {"job_type": "m", "queue": "nowhere"}}}, ("callbacks", "on_complete", "queue")),
        ({"callbacks": {"on_complete": {"job_type": "m", "depends_on": []}}}, ("callbacks", "on_complete", "depends_on")),
        ({"callbacks": {"on_end": {"job_type": "m"}}}, ("callbacks", "on_end")),
        ({"callbacks": {"on_failure": {}}}, ("callbacks", "on_failure", "job_type")),
        ({"name": "n" * 201}, ("name",)),
        ({"name": "a\x00b"}, ("name",)),
        ({"callbacks": {"on_success": {"job_type": "m", "payload": "\x00"}}}, ("callbacks", "on_success", "payload")),
        ({"seal": "yes"}, ("seal",)),
        ({"jobs": {}}, ("jobs",)),
        ([], ()),
    ],
)
def test_a_faulty_batch_is_refused_by_its_place_and_nothing_stays(gateway: Gateway, body: Any, loc: tuple[Any, ...]) -> None:
    refused(gateway.post("/v1/batches", body), *loc)
    assert gateway.get("/v1/batches").json["items"] == []
    assert gateway.get("/v1/jobs").json["items"] == []


def test_a_callbacks_payload_has_the_bound_of_any_payload(gateway: Gateway) -> None:
    reply = checked(gateway.post("/v1/batches", {"callbacks": {"on_success": {"job_type": "m", "payload": "x" * 300_000}}}))
    assert (reply.status, reply.json["code"]) == (413, "payload_too_large")


def test_batches_that_are_not_there_are_404(gateway: Gateway) -> None:
    for batch_id in (str(uuid4()), "x"):
        for path, body in (("", None), ("/seal", {}), ("/cancel", {}), ("/jobs", {"jobs": [{"job_type": "m"}]})):
            method = "POST" if path else "GET"
            assert checked(gateway.request(method, f"/v1/batches/{batch_id}{path}", body)).status == 404


def test_a_child_reads_its_parents_results_under_its_lease(gateway: Gateway) -> None:
    one, two = gateway.enqueue(), gateway.enqueue()
    child = gateway.enqueue("child", depends_on=[one, two])
    for n, job in enumerate(gateway.claim()):
        gateway.ack(job, "complete", result={"n": n, "exact": 10**30})
    [job] = gateway.claim()
    assert job["id"] == child
    token = {"lease_token": job["lease_token"]}
    answer = gateway.post(f"/v1/jobs/{child}/parents", token)
    assert answer.json["items"] == [
        {"id": one, "state": "completed", "result": {"n": 0, "exact": 10**30}},
        {"id": two, "state": "completed", "result": {"n": 1, "exact": 10**30}},
    ]
    assert [i["id"] for i in gateway.post(f"/v1/jobs/{child}/parents", {**token, "limit": 1}).json["items"]] == [one]
    assert [i["id"] for i in gateway.post(f"/v1/jobs/{child}/parents", {**token, "after": one}).json["items"]] == [two]
    assert gateway.post(f"/v1/jobs/{child}/parents", {**token, "after": two}).json["items"] == []
    reply = checked(gateway.post(f"/v1/jobs/{child}/parents", {"lease_token": str(uuid4())}))
    assert (reply.status, reply.json["code"]) == (409, "lease_lost")
    assert checked(gateway.post(f"/v1/jobs/{uuid4()}/parents", token)).status == 404


def test_large_results_of_parents_come_in_several_answers(gateway: Gateway) -> None:
    parents = [gateway.enqueue() for _ in range(20)]
    for job in gateway.claim():
        gateway.ack(job, "complete", result="x" * 250_000)
    gateway.enqueue("child", depends_on=parents)
    [job] = gateway.claim()
    seen: list[str] = []
    answers = 0
    while True:
        body = {"lease_token": job["lease_token"], **({"after": seen[-1]} if seen else {})}
        reply = gateway.post(f"/v1/jobs/{job['id']}/parents", body)
        assert len(reply.text) < 4 * 1024 * 1024
        if not reply.json["items"]:
            break
        answers += 1
        seen += [item["id"] for item in reply.json["items"]]
    assert (seen, answers) == (sorted(parents), 2)
