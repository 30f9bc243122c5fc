"""Organizations, members, projects and keys: who may change them, and what must not be lost."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from api.gateway import Gateway
from api.people import PASSWORD, Person, person, quick_decoy
from tidemill import passwords


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_decoy(monkeypatch)


@pytest.fixture
def owner(gateway: Gateway) -> Person:
    """The only owner."""
    gateway.sql("delete from tidemill.organization_members")
    return person(gateway, "owner")


def members(owner: Person) -> str:
    return f"/v1/organizations/{owner.org_id}/members"


def test_me_says_who_is_calling_and_what_they_may_do(gateway: Gateway, owner: Person) -> None:
    operator = person(gateway, "operator")
    found = operator.get("/v1/me").json
    assert (found["kind"], found["user"]["email"], found["role"]) == ("user", operator.email, "operator")
    assert found["scopes"] == ["enqueue", "member", "operate", "read"]
    assert [(row["id"], row["role"]) for row in found["organizations"]] == [(owner.org_id, "operator")]
    assert [(row["id"], row["scopes"]) for row in found["projects"]] == [(gateway.project_id, found["scopes"])]
    assert operator.get("/v1/me", project=None).json["scopes"] == ["member"]
    key = gateway.get("/v1/me").json
    assert (key["kind"], key["user"], key["project_id"], key["organizations"]) == ("api_key", None, gateway.project_id, [])
    assert key["scopes"] == ["admin", "enqueue", "operate", "read", "work"]


def test_an_owner_lets_people_in_and_changes_what_they_may_do_at_once(gateway: Gateway, owner: Person) -> None:
    path = f"/v1/organizations/{owner.org_id}/users"
    made = owner.post(path, {"email": "New@Example.test", "role": "viewer", "full_name": "N"})
    assert made.status == 201, made.text
    assert (made.json["email"], made.json["role"]) == ("new@example.test", "viewer")
    login = gateway.post("/v1/auth/login", {"email": "new@example.test", "password": made.json["initial_password"]}, key=None)
    assert login.status == 200
    newcomer = Person(gateway, made.json["id"], "new@example.test", login.json["access_token"], owner.org_id, "")
    assert newcomer.get("/v1/queues").status == 200
    assert newcomer.post("/v1/queues", {"name": "q"}).status == 403
    assert owner.request("PUT", f"{members(owner)}/{newcomer.id}", {"role": "admin"}).json["role"] == "admin"
    assert newcomer.post("/v1/queues", {"name": "q"}).status == 201
    assert owner.post(path, {"email": "new@example.test", "role": "owner"}).status == 409
    assert {row["email"] for row in newcomer.get(path).json["items"]} == {owner.email, "new@example.test"}
    assert owner.request("DELETE", f"{members(owner)}/{newcomer.id}").status == 204
    assert newcomer.get("/v1/queues").status == 404
    assert newcomer.get("/v1/me").status == 404, "of a project that is not theirs any more"
    assert newcomer.get("/v1/me", project=None).json["organizations"] == []


def test_who_had_an_account_joins_with_the_password_they_have(gateway: Gateway, owner: Person) -> None:
    stranger = person(gateway, None)
    path = f"/v1/organizations/{owner.org_id}/users"
    made = owner.post(path, {"email": stranger.email, "role": "operator", "password": "another password"})
    assert (made.status, made.json["id"], made.json["initial_password"]) == (201, stranger.id, None)
    body = {"email": stranger.email, "password": "another password"}
    assert gateway.post("/v1/auth/login", body, key=None).status == 401
    assert gateway.post("/v1/auth/login", body | {"password": PASSWORD}, key=None).status == 200


@pytest.mark.parametrize(
    "bad", [{"role": "root"}, {"role": None}, {"email": "no address"}, {"email": "a@b, c@d"}, {"password": "short"}, {"is_admin": True}]
)
def test_a_user_with_wrong_fields_is_refused(owner: Person, bad: dict[str, Any]) -> None:
    body = {"email": "a@example.test", "role": "viewer", **bad}
    assert owner.post(f"/v1/organizations/{owner.org_id}/users", body).status == 422


def test_the_last_owner_stays(gateway: Gateway, owner: Person) -> None:
    mine = f"{members(owner)}/{owner.id}"
    for refused in (owner.request("DELETE", mine), owner.request("PUT", mine, {"role": "admin"})):
        assert (refused.status, refused.json["code"]) == (409, "conflict")
    second = person(gateway, "owner")
    gateway.sql("update tidemill.users set is_active = false where id = %s", [second.id])
    assert owner.request("DELETE", mine).status == 409, "an owner who cannot log in is none"
    gateway.sql("update tidemill.users set is_active = true where id = %s", [second.id])
    assert owner.request("PUT", mine, {"role": "viewer"}).status == 200
    assert owner.request("DELETE", mine).status == 204, "anybody may leave"


def test_two_owners_who_leave_at_once_leave_one(gateway: Gateway, owner: Person) -> None:
    for leaves in (True, False):
        gateway.sql("delete from tidemill.organization_members")
        pair = [person(gateway, "owner") for _ in range(2)]
        for one in pair:
            one.gateway = Gateway(gateway.dsn, project=(gateway.project_id, gateway.key))
            assert one.get("/v1/me").status == 200  # connected
        try:
            with ThreadPoolExecutor(2) as threads:
                how: Any = (lambda one: one.request("DELETE", f"{members(owner)}/{one.id}").status) if leaves else (
                    lambda one: one.request("PUT", f"{members(owner)}/{one.id}", {"role": "viewer"}).status
                )  # fmt: skip
                statuses = sorted(threads.map(how, pair))
        finally:
            for one in pair:
                one.gateway.close()
        assert statuses == [204 if leaves else 200, 409]
        assert gateway.sql("select count(*) from tidemill.organization_members where role = 'owner'") == [(1,)]


def test_members_may_leave_but_take_nobody_with_them(gateway: Gateway, owner: Person) -> None:
    viewer, admin = person(gateway, "viewer"), person(gateway, "admin")
    assert admin.request("DELETE", f"{members(owner)}/{viewer.id}").status == 403
    assert admin.request("PUT", f"{members(owner)}/{admin.id}", {"role": "owner"}).status == 403
    assert viewer.request("DELETE", f"{members(owner)}/{viewer.id}").status == 204
    assert viewer.request("DELETE", f"{members(owner)}/{viewer.id}").status == 404
    for method, body in (("GET", None), ("PUT", {"role": "admin"}), ("DELETE", None)):
        assert owner.request(method, f"{members(owner)}/{uuid4()}", body).status == 404
        assert owner.request(method, f"{members(owner)}/{person(gateway, None).id}", body).status == 404


def test_projects_come_with_a_queue_and_go_when_they_are_empty(gateway: Gateway, owner: Person) -> None:
    admin = person(gateway, "admin")
    body = {"org_id": owner.org_id, "name": "p2"}
    assert admin.post("/v1/projects", body).status == 403
    assert person(gateway, None).post("/v1/projects", body, project=None).status == 404
    made = owner.post("/v1/projects", body, project=None)
    assert (made.status, made.json["role"]) == (201, "owner")
    assert owner.post("/v1/projects", body).status == 409
    path = f"/v1/projects/{made.json['id']}"
    assert [queue["name"] for queue in admin.get("/v1/queues", project=made.json["id"]).json["items"]] == ["default"]
    assert admin.request("PATCH", path, {"name": "default"}).status == 409
    assert admin.request("PATCH", path, {"name": "p3"}).json["name"] == "p3"
    assert [row["name"] for row in admin.get("/v1/projects", project=None).json["items"]] == ["default", "p3"]
    assert admin.request("DELETE", path).status == 403
    key = admin.post(f"{path}/api-keys", {"name": "k", "scopes": ["enqueue", "read"]}).json["api_key"]
    job_id = gateway.post("/v1/jobs", {"job_type": "t"}, key=key).json["job"]["id"]
    assert (owner.request("DELETE", path).json["code"], owner.request("DELETE", path).status) == ("conflict", 409)
    assert owner.request("DELETE", f"/v1/jobs/{job_id}", project=made.json["id"]).status == 204
    assert owner.request("DELETE", path).status == 204
    assert owner.get(path).status == 404
    assert gateway.get("/v1/jobs", key=key).status == 401
    assert gateway.get("/v1/projects").json["items"][0]["id"] == gateway.project_id, "a key sees its own"


def test_organizations_are_made_by_owners_and_seen_by_members(gateway: Gateway, owner: Person) -> None:
    viewer = person(gateway, "viewer")
    body = {"name": "Second", "slug": "second"}
    assert viewer.post("/v1/organizations", body, project=None).status == 403
    made = owner.post("/v1/organizations", body, project=None)
    assert (made.status, made.json["role"]) == (201, "owner")
    assert owner.post("/v1/organizations", body).status == 409
    path = f"/v1/organizations/{made.json['id']}"
    assert viewer.get(path).status == 404
    assert [row["slug"] for row in owner.get("/v1/organizations").json["items"]] == [
        owner.get(f"/v1/organizations/{owner.org_id}").json["slug"],
        "second",
    ]
    assert owner.request("PATCH", path, {"name": "2nd"}).json["name"] == "2nd"
    assert [note["action"] for note in owner.get(f"{path}/audit").json["items"]] == ["organizations.edit", "organizations.create"]
    assert owner.get(f"{path}/audit", query={"action": "organizations.edit"}).json["items"][0]["before"]["name"] == "Second"
    assert viewer.get(f"/v1/organizations/{owner.org_id}/audit").status == 403


def test_payloads_can_be_kept_from_a_role_everywhere(gateway: Gateway, owner: Person) -> None:
    viewer, operator = person(gateway, "viewer"), person(gateway, "operator")
    path = f"/v1/organizations/{owner.org_id}"
    secret = {"card": "whisper"}
    job_id = gateway.enqueue(payload=secret, headers={"h": "whisper"}, max_attempts=1)
    (job,) = gateway.claim(gateway.worker())
    lease = {"lease_token": job["lease_token"]}
    gateway.post(f"/v1/jobs/{job_id}/logs", {**lease, "lines": [{"ts": "2030-01-01T00:00:00Z", "level": "info", "message": "whisper"}]})
    gateway.post(f"/v1/jobs/{job_id}/checkpoint", {**lease, "data": "whisper"})
    gateway.post(f"/v1/jobs/{job_id}/output", {**lease, "data": "whisper"})
    gateway.post(f"/v1/jobs/{job_id}/progress", {**lease, "current": 1, "message": "whisper"})
    gateway.ack(job, "fail", error={"class": "E", "message": "whisper", "stack": "whisper"})
    gateway.request("PUT", "/v1/schedules/s", {"cron": "0 9 * * *", "job": {"job_type": "t", "payload": secret}})
    gateway.post("/v1/batches", {"name": "b", "callbacks": {"on_success": {"job_type": "t", "payload": secret}}})
    paths = [
        f"/v1/jobs/{job_id}", "/v1/jobs?include=payload", f"/v1/jobs/{job_id}/executions", f"/v1/jobs/{job_id}/logs", "/v1/schedules",
        f"/v1/jobs/{job_id}/events", f"/v1/jobs/{job_id}/explain", "/v1/schedules/s", "/v1/batches", "/v1/audit",
    ]  # fmt: skip

    def seen(who: Person) -> int:
        texts = []
        for one in paths:
            bare, _, query = one.partition("?")
            reply = who.get(bare, query={"include": "payload"} if query else None)
            assert reply.status == 200
            texts.append(reply.text)
        return sum("whisper" in text for text in texts)

    assert seen(viewer) >= 6
    assert owner.request("PATCH", path, {"payloads_hidden_from": ["viewer"]}).json["payloads_hidden_from"] == ["viewer"]
    assert seen(viewer) == 0
    assert viewer.get("/v1/me").json["sees_payloads"] is False
    shown = viewer.get(f"/v1/jobs/{job_id}").json
    assert (shown["payload"], shown["state"], shown["error"]["class"]) == (None, "dead_letter", "E")
    assert seen(operator) >= 6
    assert seen(owner) >= 6
    for nobody in (["admin"], ["owner"], "viewer", None):
        assert owner.request("PATCH", path, {"payloads_hidden_from": nobody}).status == 422
    assert owner.request("PATCH", path, {"payloads_hidden_from": []}).status == 200
    assert seen(viewer) >= 6


def test_a_key_is_rotated_with_an_overlap_and_revoked_at_once(gateway: Gateway, owner: Person) -> None:
    path = f"/v1/projects/{gateway.project_id}/api-keys"
    old = owner.post(path, {"name": "ci", "scopes": ["read"], "expires_at": "2090-01-01T00:00:00Z"}).json
    made = owner.post(f"/v1/api-keys/{old['id']}/rotate", {"overlap_ms": 60_000})
    assert (made.status, made.json["name"], made.json["scopes"], made.json["expires_at"]) == (
        201, "ci", ["read"], "2090-01-01T00:00:00.000000Z",
    )  # fmt: skip
    for text in (old["api_key"], made.json["api_key"]):
        assert gateway.get("/v1/jobs", key=text).status == 200
    gateway.sql("update tidemill.api_keys set expires_at = expires_at - interval '61 s' where id = %s", [old["id"]])
    assert gateway.get("/v1/jobs", key=old["api_key"]).status == 401
    assert gateway.get("/v1/jobs", key=made.json["api_key"]).status == 200
    assert owner.post(f"/v1/api-keys/{old['id']}/rotate").status == 409, "expired"
    assert owner.request("DELETE", f"/v1/api-keys/{made.json['id']}").status == 200
    assert gateway.get("/v1/jobs", key=made.json["api_key"]).status == 401
    assert owner.post(f"/v1/api-keys/{made.json['id']}/rotate").status == 409
    assert owner.post(f"/v1/api-keys/{uuid4()}/rotate").status == 404
    log = owner.get("/v1/audit", query={"target_kind": "api_key"})
    assert [note["action"] for note in log.json["items"]] == ["api-keys.revoke", "api-keys.rotate", "api-keys.create"]
    assert {note["actor"] for note in log.json["items"]} == {owner.email}
    assert made.json["api_key"] not in log.text
    assert gateway.sql("select distinct created_by::text from tidemill.api_keys where name = 'ci'") == [(owner.id,)]


def test_password_hashes_are_argon2id_and_unknown_texts_match_nothing() -> None:
    assert passwords.is_right(None, "") is False
    assert passwords.is_right("none", "none") is False
    assert passwords.hash_password("x" * 12).startswith("$argon2id$")
