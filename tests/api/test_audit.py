"""Every change outside the data plane is in the audit log: who, what, which thing, before and after; never a payload or a secret."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from api.gateway import Gateway, add_key
from tidemill.http import audit, routes
from tidemill.http.routes import Scope

OPERATOR = (Scope.OPERATE, Scope.ADMIN)
AUDITED = [
    f"{route.method} {route.path}"
    for route in routes.TABLE
    if route.is_audited(OPERATOR) and not {*OPERATOR}.isdisjoint(route.scopes or ())
]

Recipe = Callable[[Gateway], tuple[str, Any]]
SPEC = {"cron": "0 9 * * *", "job": {"job_type": "t", "payload": {"secret": "whisper"}}}


def job(gateway: Gateway, **fields: Any) -> str:
    return gateway.enqueue(payload={"secret": "whisper"}, **fields)


def dead(gateway: Gateway) -> str:
    job_id = job(gateway, max_attempts=1)
    (claimed,) = gateway.claim(gateway.worker())
    gateway.ack(claimed, "fail", error={"class": "E", "message": "m"})
    return job_id


def schedule(gateway: Gateway, **fields: Any) -> str:
    assert gateway.request("PUT", "/v1/schedules/s", SPEC | fields).status == 201
    return "/v1/schedules/s"


def queue(gateway: Gateway, **fields: Any) -> str:
    assert gateway.post("/v1/queues", {"name": "q", **fields}).status == 201
    return "/v1/queues/q"


def policy(gateway: Gateway) -> str:
    assert gateway.post("/v1/retry-policies", {"name": "p"}).status == 201
    return "/v1/retry-policies/p"


def put(gateway: Gateway, path: str, body: Any) -> str:
    assert gateway.request("PUT", path, body).status == 201
    return path


def new_key(gateway: Gateway) -> str:
    path = f"/v1/projects/{gateway.project_id}/api-keys"
    return f"/v1/api-keys/{gateway.post(path, {'name': 'k', 'scopes': ['read']}).json['id']}"


def plan(gateway: Gateway) -> str:
    dead(gateway)
    made = gateway.post("/v1/operations", {"action": "retry", "filter": {"queue": "default", "state": ["dead_letter"]}})
    assert made.status == 201, made.text
    return f"/v1/operations/{made.json['id']}"


def applied(gateway: Gateway) -> str:
    path = plan(gateway)
    assert gateway.post(f"{path}/apply").status == 202
    return path


def discarded(gateway: Gateway) -> str:
    dead(gateway)
    made = gateway.post("/v1/operations", {"action": "discard", "filter": {"queue": "default", "state": ["dead_letter"]}, "dry_run": False})
    gateway.post("/v1/tick")
    return f"/v1/operations/{made.json['id']}"


def quarantined(gateway: Gateway) -> str:
    gateway.request("PATCH", "/v1/queues/default", {"quarantine_after": 1})
    job_id = job(gateway)
    (claimed,) = gateway.claim(gateway.worker())
    gateway.ack(claimed, "crash", error={"class": "E", "message": "m"})
    shown = gateway.get(f"/v1/jobs/{job_id}").json
    assert shown["state"] == "quarantined"
    return f"/v1/quarantine/{shown['fingerprint']}"


def partition(gateway: Gateway) -> str:
    job(gateway, partition_key="p")
    return "/v1/queues/default/partitions/p"


RECIPES: dict[str, Recipe] = {
    "POST /v1/jobs/{id}/cancel": lambda g: (f"/v1/jobs/{job(g)}/cancel", None),
    "POST /v1/jobs/{id}/retry": lambda g: (f"/v1/jobs/{dead(g)}/retry", None),
    "POST /v1/jobs/{id}/promote": lambda g: (f"/v1/jobs/{job(g, hold=True)}/promote", None),
    "POST /v1/jobs/{id}/reschedule": lambda g: (f"/v1/jobs/{job(g)}/reschedule", {"run_at": "2031-01-01T00:00:00Z"}),
    "POST /v1/jobs/{id}/rerun": lambda g: (f"/v1/jobs/{job(g)}/rerun", None),
    "PATCH /v1/jobs/{id}": lambda g: (f"/v1/jobs/{job(g)}", {"payload": {"secret": "whisper it again"}}),
    "DELETE /v1/jobs/{id}": lambda g: (f"/v1/jobs/{job(g)}", None),
    "POST /v1/batches/{id}/cancel": lambda g: (f"/v1/batches/{g.post('/v1/batches', {'name': 'b'}).json['batch']['id']}/cancel", None),
    "DELETE /v1/workers/{id}": lambda g: (f"/v1/workers/{g.worker()}", None),
    "POST /v1/workers/{id}/command": lambda g: (f"/v1/workers/{g.worker()}/command", {"command": "quiet"}),
    "POST /v1/projects/{id}/api-keys": lambda g: (f"/v1/projects/{g.project_id}/api-keys", {"name": "k", "scopes": ["read"]}),
    "DELETE /v1/api-keys/{id}": lambda g: (new_key(g), None),
    "POST /v1/queues": lambda g: ("/v1/queues", {"name": "q"}),
    "PATCH /v1/queues/{name}": lambda g: (queue(g), {"priority": 3}),
    "POST /v1/queues/{name}/pause": lambda g: (f"{queue(g)}/pause", None),
    "POST /v1/queues/{name}/resume": lambda g: (f"{queue(g, is_paused=True)}/resume", None),
    "POST /v1/retry-policies": lambda g: ("/v1/retry-policies", {"name": "p"}),
    "PATCH /v1/retry-policies/{name}": lambda g: (policy(g), {"max_attempts": 9}),
    "DELETE /v1/retry-policies/{name}": lambda g: (policy(g), None),
    "PUT /v1/rate-classes/{name}": lambda _: ("/v1/rate-classes/r", {"limit": 1, "window_ms": 1_000}),
    "DELETE /v1/rate-classes/{name}": lambda g: (put(g, "/v1/rate-classes/r", {"limit": 1, "window_ms": 1_000}), None),
    "PUT /v1/concurrency-limits/{name}": lambda _: ("/v1/concurrency-limits/l", {"job_type": "t", "max_concurrent": 1}),
    "DELETE /v1/concurrency-limits/{name}": lambda g: (put(g, "/v1/concurrency-limits/l", {"queue": "default", "max_concurrent": 1}), None),
    "POST /v1/schedules/sync": lambda g: ("/v1/schedules/sync", {"declared_by": "app", "schedules": {"s": SPEC}}),
    "PUT /v1/schedules/{name}": lambda _: ("/v1/schedules/s", SPEC),
    "PATCH /v1/schedules/{name}": lambda g: (schedule(g), {"cron": "0 8 * * *"}),
    "DELETE /v1/schedules/{name}": lambda g: (schedule(g), None),
    "POST /v1/schedules/{name}/pause": lambda g: (f"{schedule(g)}/pause", None),
    "POST /v1/schedules/{name}/resume": lambda g: (f"{schedule(g, is_paused=True)}/resume", None),
    "POST /v1/schedules/{name}/trigger": lambda g: (f"{schedule(g)}/trigger", None),
    "POST /v1/dead-letters/{id}/resolve": lambda g: (f"/v1/dead-letters/{dead(g)}/resolve", {"action": "discard"}),
    "DELETE /v1/queues/{name}": lambda g: (queue(g), None),
    "POST /v1/operations": lambda g: ("/v1/operations", {"action": "retry", "filter": {"queue": "default"}}),
    "POST /v1/operations/{id}/apply": lambda g: (f"{plan(g)}/apply", None),
    "POST /v1/operations/{id}/abort": lambda g: (f"{applied(g)}/abort", None),
    "POST /v1/operations/{id}/undo": lambda g: (f"{discarded(g)}/undo", None),
    "PATCH /v1/queues/{name}/partitions/{key}": lambda g: (partition(g), {"weight": 7}),
    "POST /v1/quarantine/{fingerprint}/release": lambda g: (f"{quarantined(g)}/release", None),
    "POST /v1/quarantine/{fingerprint}/discard": lambda g: (f"{quarantined(g)}/discard", None),
    "PATCH /v1/projects/{id}": lambda g: (f"/v1/projects/{g.project_id}", {"name": "renamed"}),
    "POST /v1/api-keys/{id}/rotate": lambda g: (f"{new_key(g)}/rotate", None),
    "PUT /v1/webhook": lambda _: ("/v1/webhook", {"url": "https://example.com/whisper"}),
    "DELETE /v1/webhook": lambda g: (put(g, "/v1/webhook", {"url": "https://example.com/whisper"}), None),
    "POST /v1/webhook/rotate": lambda g: (f"{put(g, '/v1/webhook', {'url': 'https://example.com/whisper'})}/rotate", None),
    "POST /v1/webhook/test": lambda g: (f"{put(g, '/v1/webhook', {'url': 'https://example.com/whisper'})}/test", None),
    "POST /v1/tick": lambda _: ("/v1/tick", None),
}
"""A call of each audited route that changes something: its path and body, once what it needs is there."""


def log_of(gateway: Gateway, **query: Any) -> list[dict[str, Any]]:
    reply = gateway.get("/v1/audit", query=query)
    assert reply.status == 200, reply.text
    found: list[dict[str, Any]] = reply.json["items"]
    return found


@pytest.mark.parametrize("name", AUDITED)
def test_every_mutating_route_outside_the_data_plane_leaves_a_note(gateway: Gateway, database: str, name: str) -> None:
    assert name in RECIPES, f"{name} is audited: add a recipe that calls it, and note before and after with call.note"
    path, body = RECIPES[name](gateway)
    noted = len(log_of(gateway))
    operator = add_key(database, gateway.project_id, "operate", "admin")
    reply = gateway.request(name.partition(" ")[0], path, body, key=operator)
    assert reply.status < 300, reply.text
    log = log_of(gateway)
    assert len(log) == noted + 1
    note = log[0]
    assert (note["actor_kind"], note["actor"], note["request_id"]) == ("api_key", "k", reply.headers["x-request-id"])
    assert note["actor_id"].replace("-", "") in operator
    assert note["target_kind"]
    assert note["target_id"]
    assert note["before"] is not None or note["after"] is not None, "takes a note of its own"
    assert note["before"] != note["after"] or name == "PATCH /v1/jobs/{id}"
    assert "whisper" not in str(gateway.sql("select to_jsonb(a)::text from tidemill.audit_log a"))


def test_what_producers_and_workers_do_is_not_noted(gateway: Gateway) -> None:
    job_id, worker = gateway.enqueue(), gateway.worker()
    (claimed,) = gateway.claim(worker)
    gateway.post(f"/v1/jobs/{job_id}/logs", {"lease_token": claimed["lease_token"], "lines": []})
    gateway.ack(claimed, "complete")
    gateway.request("DELETE", f"/v1/workers/{worker}")
    gateway.post("/v1/schedules/preview", {"cron": "0 9 * * *"})
    assert log_of(gateway) == []


def test_a_refused_call_and_one_that_changes_nothing_leave_no_note(gateway: Gateway) -> None:
    path = queue(gateway)
    before = log_of(gateway)
    assert gateway.post("/v1/queues", {"name": "q"}).status == 409
    assert gateway.request("PATCH", path, {"priority": 99_999}).status == 422
    assert gateway.request("PATCH", path, {"default_retry_policy": "none"}).status == 422
    assert gateway.request("PATCH", path, {"priority": 0}).status == 200
    assert gateway.post(f"{path}/resume").status == 200
    assert gateway.post(f"/v1/jobs/{uuid4()}/cancel").status == 404
    assert log_of(gateway) == before


def test_a_change_without_its_note_is_undone(gateway: Gateway) -> None:
    gateway.sql("alter table tidemill.audit_log add constraint full_disk check (target_id <> 'q')")
    assert gateway.post("/v1/queues", {"name": "q"}).status >= 422
    assert gateway.get("/v1/queues/q").status == 404


def test_before_is_what_the_change_before_left_also_when_they_race(gateway: Gateway) -> None:
    path = queue(gateway)
    others = [Gateway(gateway.dsn, project=(gateway.project_id, gateway.key)) for _ in range(4)]
    try:
        with ThreadPoolExecutor(len(others)) as threads:
            list(threads.map(lambda i: [others[i].request("PATCH", path, {"priority": i * 10 + n + 1}) for n in range(5)], range(4)))
    finally:
        for other in others:
            other.close()
    chain = [(note["before"]["priority"], note["after"]["priority"]) for note in log_of(gateway, action="queues.edit")][::-1]
    assert len(chain) == 20
    assert [before for before, _ in chain] == [0, *(after for _, after in chain[:-1])]


def test_the_log_is_filtered_and_paged_without_gaps(gateway: Gateway, database: str) -> None:
    path, operator = queue(gateway), add_key(database, gateway.project_id, "operate")
    for n in range(6):
        verb = "pause" if n % 2 == 0 else "resume"
        gateway.post(f"{path}/{verb}", key=operator if n < 4 else gateway.key)
    gateway.post("/v1/retry-policies", {"name": "p"})
    every = log_of(gateway)
    assert [note["action"] for note in every] == [
        "retry-policies.create", "queues.resume", "queues.pause", "queues.resume", "queues.pause", "queues.resume", "queues.pause",
        "queues.create",
    ]  # fmt: skip
    assert [note["target_kind"] for note in log_of(gateway, target_kind="retry_policy")] == ["retry_policy"]
    assert len(log_of(gateway, target_kind="queue", target_id="q", action="queues.pause")) == 3
    assert len(log_of(gateway, actor_id=every[3]["actor_id"])) == 4
    assert log_of(gateway, actor_kind="user") == []
    assert log_of(gateway, request_id=every[2]["request_id"]) == [every[2]]
    assert log_of(gateway, since=every[2]["at"]) == every[:3]
    assert log_of(gateway, until=every[2]["at"]) == every[3:]
    for filters in ({}, {"actor_kind": "api_key"}, {"target_kind": "queue"}):
        seen: list[Any] = []
        cursor: dict[str, Any] = {}
        while True:
            reply = gateway.get("/v1/audit", query={"limit": 3, **filters, **cursor}).json
            seen += reply["items"]
            if reply["next_cursor"] is None:
                break
            cursor = {"cursor": reply["next_cursor"]}
        assert seen == log_of(gateway, **filters)
    other = gateway.get("/v1/audit", query={"limit": 1}).json["next_cursor"]
    assert gateway.get("/v1/audit", query={"limit": 1, "action": "tick", "cursor": other}).status == 422


def test_another_project_s_log_is_its_own(gateway: Gateway) -> None:
    queue(gateway)
    stranger = Gateway(gateway.dsn)
    try:
        assert log_of(stranger) == []
    finally:
        stranger.close()


def test_a_large_note_is_kept_by_the_names_of_its_fields() -> None:
    assert audit.kept({"b": "x" * 20_000, "a": 1}) == '{"too_large": ["a", "b"]}'
    assert audit.kept({"a": {"payload": 1, "headers": None, "deep": [{"api_key": "tm_"}]}}) == (
        '{"a": {"payload": "(not kept)", "headers": null, "deep": [{"api_key": "(not kept)"}]}}'
    )
