"""What a role must not see is in no answer, and what another project has is in none either: every route is asked with marked data."""

from collections.abc import Iterator
from typing import Any

import pytest

from api.gateway import Gateway, Reply
from api.people import Person, org_of, person
from tidemill.http import routes

MARK = "whisper7"
"""Stands in all that jobs carry and handlers write."""


class Marked:
    """A project in which every place that can hold a text of a job's holds MARK."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        secret = {"card": MARK, "list": [{"deep": MARK}]}
        worker = gateway.worker()
        fields: dict[str, Any] = {"payload": secret, "headers": {"h": MARK}}
        callbacks = {name: {"job_type": "t", **fields} for name in ("on_success", "on_failure", "on_complete")}
        self.batch_id = gateway.post("/v1/batches", {"name": "b", "callbacks": callbacks}).json["batch"]["id"]
        self.dead_id = gateway.enqueue(**fields, max_attempts=1, batch_id=self.batch_id)
        (job,) = gateway.claim(worker)
        lease = {"lease_token": job["lease_token"]}
        line = {"ts": "2030-01-01T00:00:00Z", "level": "error", "message": MARK}
        for report, body in (
            ("logs", {"lines": [line]}), ("checkpoint", {"data": secret, "cursor": MARK}), ("output", {"data": secret}),
            ("progress", {"current": 1, "total": 2, "message": MARK}),
        ):  # fmt: skip
            assert gateway.post(f"/v1/jobs/{self.dead_id}/{report}", {**lease, **body}).status in (200, 204)
        gateway.ack(job, "fail", error={"class": "E", "message": MARK, "stack": MARK})
        self.retrying_id = gateway.enqueue(**fields, max_attempts=5)
        (job,) = gateway.claim(worker)
        gateway.ack(job, "fail", error={"class": "E", "message": MARK, "stack": MARK})
        self.done_id = gateway.enqueue(**fields)
        (job,) = gateway.claim(worker)
        gateway.ack(job, "complete", result=secret)
        self.crashed_id = gateway.enqueue("crashing", **fields, max_attempts=9, retry_policy={"strategy": "fixed", "base_delay_ms": 0})
        for _ in range(3):
            (job,) = gateway.claim(worker)
            gateway.ack(job, "crash", error={"class": "Crash", "message": MARK, "stack": MARK})
        self.fingerprint = gateway.get("/v1/quarantine").json["items"][0]["fingerprint"]
        self.child_id = gateway.enqueue(**fields, depends_on=[self.retrying_id])
        self.queued_id = gateway.enqueue(**fields)
        self.running_id = gateway.enqueue("running", **fields)
        (job,) = gateway.claim(worker, job_types=["running"])
        gateway.post(f"/v1/jobs/{self.running_id}/progress", {"lease_token": job["lease_token"], "current": 1, "message": MARK})
        self.worker_id = worker
        schedule = {"cron": "0 9 * * *", "job": {"job_type": "t", **fields}}
        assert gateway.request("PUT", "/v1/schedules/s", schedule).status in (200, 201)
        assert gateway.post("/v1/schedules/s/trigger", {}).status < 300
        plan = gateway.post("/v1/operations", {"action": "retry", "filter": {"state": ["dead_letter"]}})
        self.operation_id = plan.json["id"]
        gateway.post("/v1/queues", {"name": "q"})
        gateway.post("/v1/retry-policies", {"name": "p"})
        gateway.post("/v1/tick", {})

    @property
    def job_ids(self) -> list[str]:
        return [self.dead_id, self.retrying_id, self.done_id, self.crashed_id, self.child_id, self.queued_id, self.running_id]

    def gets(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every GET of the table, with what makes it tell the most."""
        ids = {"jobs": self.job_ids, "batches": [self.batch_id], "operations": [self.operation_id], "workers": [self.worker_id],
               "projects": [self.gateway.project_id], "organizations": [org_of(self.gateway)]}  # fmt: skip
        names = {"queues": "default", "schedules": "s", "retry-policies": "p"}
        for route in routes.TABLE:
            if route.method != "GET" or not route.path.startswith("/v1/"):
                continue
            collection = route.path.split("/")[2]
            for one in ids.get(collection, ["-"]):
                path = route.path.replace("{id}", one).replace("{name}", names.get(collection, "-"))
                path = path.replace("{fingerprint}", self.fingerprint).replace("{user_id}", "-")
                yield path, {}
                if route.path in ("/v1/jobs", "/v1/dead-letters"):
                    yield path, {"include": "payload"}
        yield "/v1/dead-letters", {"group_by": "error"}
        yield "/v1/schedules/s/preview", {"n": 3}


@pytest.fixture(scope="module")
def marked(shared_gateway: Gateway) -> Marked:
    return Marked(shared_gateway)


@pytest.fixture(scope="module")
def hidden(shared_gateway: Gateway) -> Iterator[None]:
    owner = person(shared_gateway, "owner")
    path = f"/v1/organizations/{owner.org_id}"
    assert owner.request("PATCH", path, {"payloads_hidden_from": ["viewer", "operator"]}).status == 200
    yield
    assert owner.request("PATCH", path, {"payloads_hidden_from": []}).status == 200


def tells(reply: Reply) -> bool:
    return MARK in reply.text or MARK in str(reply.headers)


def test_the_walk_finds_the_mark_where_it_may_be_seen(marked: Marked) -> None:
    """The measure of the next test: a walk that finds nothing in the open would prove nothing when it finds nothing in the dark."""
    owner = person(marked.gateway, "owner")
    open_paths = {path.split("?")[0] for path, query in marked.gets() if tells(owner.get(path, query=query))}
    assert {f"/v1/jobs/{marked.dead_id}", f"/v1/jobs/{marked.dead_id}/executions", f"/v1/jobs/{marked.dead_id}/logs"} <= open_paths
    assert {f"/v1/jobs/{marked.running_id}", "/v1/dead-letters", "/v1/schedules", "/v1/schedules/s"} <= open_paths


@pytest.mark.parametrize("role", ["viewer", "operator"])
@pytest.mark.usefixtures("hidden")
def test_no_get_tells_a_hidden_role_what_jobs_carry(marked: Marked, role: str) -> None:
    """The kinds of errors told it: each with the last text of its kind, under a name that was not on the list of what is hidden."""
    who = person(marked.gateway, role)
    told = [f"{path} {query}" for path, query in marked.gets() if tells(who.get(path, query=query))]
    assert told == []


def test_another_project_is_in_no_answer_and_its_ids_are_no_filter(marked: Marked) -> None:
    stranger = Gateway(marked.gateway.dsn)
    try:
        theirs = {*marked.job_ids, marked.batch_id, marked.operation_id, marked.worker_id, marked.gateway.project_id, MARK}
        asked: list[tuple[str, dict[str, Any]]] = list(marked.gets())
        asked += [("/v1/jobs", {name: value}) for name, value in (
            ("batch_id", marked.batch_id), ("worker_id", marked.worker_id), ("fingerprint", marked.fingerprint), ("q", marked.dead_id),
            ("state", "dead_letter"), ("state", "running"), ("job_type", "crashing"), ("error_class", "E"),
        )]  # fmt: skip
        asked += [("/v1/audit", {"target_id": marked.dead_id}), ("/v1/stats/history", {"queue": "q"})]
        for path, query in asked:
            reply = stranger.get(path, query=query)
            assert reply.status < 500, (path, reply.text)
            sent = set(path.split("/")) | set(map(str, query.values()))
            assert [one for one in theirs - sent if one in reply.text] == [], (path, query)
            if sent & theirs:
                assert reply.status in (403, 404) or reply.json["items"] == [], (path, query, reply.text)
        for path in ("/v1/changes", "/v1/jobs", "/v1/dead-letters"):
            name = "since" if path == "/v1/changes" else "cursor"
            own = marked.gateway.get(path, query={} if name == "since" else {"limit": 1}).json
            taken = stranger.get(path, query={name: own["cursor" if name == "since" else "next_cursor"]})
            assert taken.status == 422, (path, taken.text)
    finally:
        stranger.close()


def test_what_is_enqueued_cannot_be_tied_to_another_projects_things(marked: Marked) -> None:
    stranger = Gateway(marked.gateway.dsn)
    try:
        for tie in ({"batch_id": marked.batch_id}, {"retry_policy": "p"}, {"queue": "q"}):
            assert stranger.post("/v1/jobs", {"job_type": "t", **tie}).status in (404, 409, 422), tie
        made = stranger.post("/v1/jobs", {"job_type": "t", "depends_on": [marked.retrying_id]})
        if made.status == 201:  # a parent that the project has not counts as gone
            parents = stranger.get(f"/v1/jobs/{made.json['job']['id']}").json["parents"]
            assert [parent.get("state") for parent in parents] in ([], [None])
        children = marked.gateway.get(f"/v1/jobs/{marked.retrying_id}").json["children"]
        assert [child["id"] for child in children if child["id"] != marked.child_id] == []
    finally:
        stranger.close()


def test_a_hidden_role_cannot_open_what_is_hidden_from_it(marked: Marked) -> None:
    for role in ("viewer", "operator", "admin"):
        who: Person = person(marked.gateway, role)
        assert who.request("PATCH", f"/v1/organizations/{who.org_id}", {"payloads_hidden_from": []}).status == 403
        if role != "admin":
            made = who.post(f"/v1/projects/{marked.gateway.project_id}/api-keys", {"name": "mine", "scopes": ["read"]})
            assert made.status == 403, "a key is no role and sees payloads: only who sees them may make one"


@pytest.mark.usefixtures("hidden")
def test_no_verb_tells_a_hidden_operator_what_it_moves(marked: Marked) -> None:
    who, told = person(marked.gateway, "operator"), []
    ids = marked.job_ids
    calls: list[tuple[str, str, Any]] = [
        (method, f"/v1/jobs/{one}{verb}", body)
        for one in ids
        for method, verb, body in (
            ("PATCH", "", {"priority": 3}), ("PATCH", "", {"payload": {"$": 1}, "priority": 99_999_999}), ("POST", "/promote", {}),
            ("POST", "/reschedule", {"run_at": "2040-01-01T00:00:00Z"}), ("POST", "/rerun", {}), ("POST", "/retry", {}),
            ("POST", "/cancel", {}), ("DELETE", "", None),
        )
    ]  # fmt: skip
    calls += [
        ("POST", f"/v1/dead-letters/{marked.dead_id}/resolve", {"action": "discard"}),
        ("POST", f"/v1/quarantine/{marked.fingerprint}/release", {}),
        ("POST", "/v1/schedules/s/trigger", {}), ("POST", "/v1/schedules/s/pause", {}), ("POST", "/v1/schedules/s/resume", {}),
        ("POST", "/v1/queues/default/simulate", {}), ("POST", f"/v1/batches/{marked.batch_id}/seal", {}),
        ("POST", f"/v1/batches/{marked.batch_id}/cancel", {}),
        ("POST", f"/v1/batches/{marked.batch_id}/jobs", {"jobs": [{"job_type": "t"}]}),
        ("POST", "/v1/operations", {"action": "delete", "filter": {"q": marked.done_id}, "dry_run": False}),
        ("POST", "/v1/jobs", {"job_type": "t", "depends_on": [marked.retrying_id]}),
    ]  # fmt: skip
    before = marked.gateway.get(f"/v1/jobs/{marked.queued_id}").json["payload"]
    for method, path, body in calls:
        reply = who.request(method, path, body)
        assert reply.status < 500, (method, path, reply.text)
        if tells(reply):
            told.append(f"{method} {path}")
    assert told == []
    assert before["card"] == MARK, "the one who may see it does"
