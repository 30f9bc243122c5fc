"""B087: every route × method refuses no token, a wrong one, a wrong scope and a foreign project. Route list = document."""

import re
import secrets
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from api.gateway import Context, Gateway, add_key, event_v2, found
from api.people import person
from tidemill.domain import api_keys
from tidemill.http import document, paths, routes
from tidemill.http.routes import KEY_SCOPES, ROLES, Route

GUARDED = [route for route in routes.TABLE if route.scopes is not None]
ALL = [f"{route.method} {route.path}" for route in routes.TABLE]


def filled(route: Route, **values: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], str(uuid4())), route.path)


def id_of(key: str) -> str:
    parsed = api_keys.parse(key)
    assert parsed is not None
    return parsed.key_id


def mutated(text: str, place: int) -> str:
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


@pytest.fixture(scope="module")
def keys(shared_gateway: Gateway) -> dict[str, str]:
    """A key per scope."""
    return {scope.value: add_key(shared_gateway.dsn, shared_gateway.project_id, scope.value) for scope in KEY_SCOPES}


def test_b087_no_route_answers_without_a_valid_token(gateway: Gateway, database: str) -> None:
    key = gateway.key
    expired, revoked = add_key(database, gateway.project_id, *KEY_SCOPES), add_key(database, gateway.project_id, *KEY_SCOPES)
    gateway.sql("update tidemill.api_keys set expires_at = now() - interval '1 s' where id = %s", [id_of(expired)])
    gateway.sql("update tidemill.api_keys set revoked_at = now() where id = %s", [id_of(revoked)])
    unknown = api_keys.compose("test", uuid4(), secrets.token_urlsafe(32)).text
    headers: list[Any] = [
        None, "", "Bearer", "Bearer ", key, f"Basic {key}", f"Bearer {key} {key}", f"Bearer {key},Bearer {key}",
        f"Bearer {key}, Bearer {unknown}",
        f"Bearer {expired}", f"Bearer {revoked}", f"Bearer {unknown}", f"Bearer {mutated(key, len(key) - 5)}",
        f"Bearer {key.replace('_test_', '_prod_')}",
        f"Bearer {key}\x00", "Bearer " + "x" * 10_000, f"Bearer {key[:-1]}", "Bearer tm_test_abc_def", "Bearer null",
    ]  # fmt: skip
    texts = set()
    for route in GUARDED:
        for header in headers:
            sent = {} if header is None else {"authorization": header}
            reply = gateway.request(route.method, filled(route), {} if route.method in ("POST", "PATCH") else None, key=None, headers=sent)
            assert (reply.status, reply.json["code"]) == (401, "unauthenticated"), (route.method, route.path, header)
            assert reply.headers["www-authenticate"] == "Bearer"
            texts.add(reply.json["detail"])
    assert len(texts) == 1, "no difference reveals why"


def test_b087_the_scheme_is_read_in_any_case_and_two_headers_are_none(gateway: Gateway) -> None:
    for header in (f"bearer {gateway.key}", f"BEARER  {gateway.key}", f" Bearer {gateway.key} "):
        assert gateway.request("GET", "/v1/version", key=None, headers={"Authorization": header}).status == 200
    doubled = event_v2("GET", "/v1/version", headers={"Authorization": f"Bearer {gateway.key}", "authorization": f"Bearer {gateway.key}"})
    assert gateway.send(doubled).status == 401


@pytest.mark.parametrize("name", [name for name, route in zip(ALL, routes.TABLE, strict=True) if route.scopes is not None])
def test_b087_a_key_without_the_scope_is_forbidden_before_anything_is_read(
    shared_gateway: Gateway, keys: dict[str, str], name: str
) -> None:
    route = routes.TABLE[ALL.index(name)]
    assert route.scopes is not None
    for scope, key in keys.items():
        reply = shared_gateway.request(route.method, filled(route), "{not json" if route.method in ("POST", "PATCH") else None, key=key)
        if scope in route.scopes:
            assert reply.status not in (401, 403), (name, scope)
        else:
            assert (reply.status, reply.json["code"]) == (403, "forbidden"), (name, scope)
            assert any(needed in reply.json["detail"] for needed in route.scopes)


EVERYTHING = """
    select (select jsonb_agg(j) from tidemill.jobs j), (select jsonb_agg(l) from tidemill.job_leases l),
           (select jsonb_agg(w) from tidemill.workers w), (select jsonb_agg(q order by q.id) from tidemill.queues q)
"""


def bodies(lease_token: str) -> dict[str, Any]:
    return {
        "parents": {}, "start": {}, "progress": {"current": 1}, "checkpoint": {"data": 1}, "output": {"data": 1}, "logs": {"lines": []},
        "children": {"jobs": []},
        "reschedule": {"run_at": "2030-01-01T00:00:00Z"}, "command": {"command": "quiet"}, "PATCH": {"priority": 1},
        "heartbeat": {"leases": []}, "resolve": {"action": "retry"}, "{key}": {"weight": 1},
        "api-keys": {"name": "k", "scopes": ["read"]}, "token": {"lease_token": lease_token},
    }  # fmt: skip


@pytest.fixture
def stranger(database: str) -> Iterator[Gateway]:
    made = Gateway(database)
    yield made
    made.close()


def test_b087_the_ids_and_names_of_another_project_are_not_found(gateway: Gateway, stranger: Gateway) -> None:
    worker = gateway.worker()
    job_id = gateway.enqueue()
    (job,) = gateway.claim(worker)
    gateway.post("/v1/queues", {"name": "theirs"})
    gateway.post("/v1/retry-policies", {"name": "theirs"})
    key_id = gateway.get(f"/v1/projects/{gateway.project_id}/api-keys").json["items"][0]["id"]
    batch_id = gateway.post("/v1/batches", {"name": "theirs"}).json["batch"]["id"]
    plan_id = gateway.post("/v1/operations", {"action": "cancel", "filter": {"queue": "theirs"}}).json["id"]
    own = {
        "operations": plan_id,
        "jobs": job_id,
        "workers": worker,
        "projects": gateway.project_id,
        "api-keys": key_id,
        "batches": batch_id,
    }
    before = gateway.sql(EVERYTHING)
    given = bodies(str(uuid4()))
    for route in GUARDED:
        if "{" not in route.path or route.path.endswith("/heartbeat") or route.method == "PUT":  # a PUT makes what is not there
            continue
        if set(KEY_SCOPES).isdisjoint(route.scopes or ()):
            continue  # not for keys; people below
        collection = route.path.split("/")[2]
        path = filled(route, id=own.get(collection, job_id) if "{id}" in route.path else "", name="theirs")
        body = given.get(route.path.split("/")[-1], given.get(route.method)) if route.method in ("POST", "PATCH") else None
        if collection == "batches" and path.endswith("/jobs"):
            body = {"jobs": [{"job_type": "t"}]}
        if body is not None and route.function == "claims":
            body = body | given["token"]
        if route.method == "PATCH":
            body = {"retry-policies": {"max_attempts": 1}, "schedules": {"is_paused": True}}.get(collection, body)
        reply = stranger.request(route.method, path, body)
        assert reply.status == 404, (route.method, path, reply.text)
    leases = [{"job_id": job_id, "lease_token": str(uuid4())}]
    beat = stranger.post(f"/v1/workers/{worker}/heartbeat", {"active_job_count": 7, "leases": leases})
    assert beat.json == {"command": None, "cancel": [], "lost": [job_id], "leases": []}
    assert stranger.claim(worker) == []
    assert stranger.get("/v1/jobs", query={"q": job_id}).json["items"] == []
    assert gateway.sql(EVERYTHING) == before
    assert gateway.ack(job, "complete")["status"] == "ok"


def test_b087_a_role_opens_what_its_scopes_open_and_nothing_of_others(gateway: Gateway) -> None:
    """Every route of the document: wrong scope 403, a project or organization of others 404, whatever else is asked."""
    people = {role: person(gateway, role) for role in ROLES}
    theirs, _ = found(gateway.dsn)
    their_org = gateway.sql("select org_id::text from tidemill.projects where id = %s", [theirs])[0][0]
    gateway.enqueue()  # so that the project cannot be deleted
    for route in GUARDED:
        assert route.scopes is not None
        name, body = f"{route.method} {route.path}", "{not json" if route.method in ("POST", "PATCH", "PUT") else None
        is_of_organization = route.path.startswith("/v1/organizations/{id}")
        in_path = is_of_organization or route.path.startswith("/v1/projects/{id}")
        ours = people["owner"].org_id if is_of_organization else gateway.project_id if in_path else str(uuid4())
        for role, who in people.items():
            reply = who.request(route.method, filled(route, id=ours), body)
            if ROLES[role].isdisjoint(route.scopes):
                assert (reply.status, reply.json["code"]) == (403, "forbidden"), (name, role)
            elif name != "DELETE /v1/organizations/{id}/members/{user_id}":  # open to all for themselves
                assert reply.status not in (401, 403), (name, role, reply.text)
        for foreign in (their_org if is_of_organization else theirs, str(uuid4()), "no-id"):
            path = filled(route, id=foreign if in_path else ours)
            reply = people["owner"].request(route.method, path, body, project=None if in_path else foreign)
            assert (reply.status, reply.json["code"]) == (404, "not_found"), (name, foreign, reply.text)
        if not set(KEY_SCOPES).isdisjoint(route.scopes) and not in_path:
            reply = gateway.request(route.method, filled(route), body, headers={"x-tidemill-project": theirs})
            assert (reply.status, reply.json["code"]) == (404, "not_found"), f"{name}: a key has one project"
    assert gateway.get("/v1/version", headers={"x-tidemill-project": gateway.project_id.upper()}).status == 200


def test_b087_no_session_route_answers_without_a_token_of_a_live_session(gateway: Gateway) -> None:
    who = person(gateway, "owner")
    gateway.sql("update tidemill.sessions set revoked_at = now() where family_id = %s", [who.family_id])
    for route in GUARDED:
        reply = who.request(route.method, filled(route), {} if route.method in ("POST", "PATCH", "PUT") else None)
        assert (reply.status, reply.json["code"]) == (401, "unauthenticated"), (route.method, route.path)


def test_b087_a_gateway_that_remembers_a_caller_does_not_keep_a_session_or_a_role_alive(gateway: Gateway) -> None:
    """The authorizer's answer is kept for a minute: what it says of a session holds only as long as the session does."""
    who = person(gateway, "admin")
    remembered = gateway.authorizer(event_v2("GET", "/v1/queues", headers={"authorization": f"Bearer {who.token}"}))["context"]

    def asked() -> int:
        event = event_v2("GET", "/v1/queues", headers={"x-tidemill-project": gateway.project_id})
        event["requestContext"]["authorizer"] = {"lambda": remembered}
        status: int = gateway.app("admin")(event, Context())["statusCode"]
        return status

    assert asked() == 200
    gateway.sql("update tidemill.organization_members set role = 'viewer' where user_id = %s", [who.id])
    assert asked() == 200
    gateway.sql("delete from tidemill.organization_members where user_id = %s", [who.id])
    assert asked() == 404
    gateway.sql("update tidemill.sessions set revoked_at = now() where family_id = %s", [who.family_id])
    assert asked() == 401


def test_b087_other_methods_do_not_get_around_the_token(gateway: Gateway) -> None:
    job_id = gateway.enqueue()
    for path in sorted({filled(route, id=job_id) for route in routes.TABLE}):
        options = gateway.request("OPTIONS", path, key=None)
        assert options.status == 405
        assert "access-control-allow-origin" not in options.headers
        head = gateway.request("HEAD", path, key=None)
        gets = any(route.method == "GET" for route in routes.at(paths.normalised(path, None, "HEAD")).values())
        assert head.text == ""
        assert head.status == (200 if path in ("/healthz", "/readyz") else 401 if gets else 405), path
        assert gateway.request("TRACE", path, key=None).status == 405
    head = gateway.request("HEAD", f"/v1/jobs/{job_id}")
    assert (head.status, head.text) == (200, "")


def test_b087_the_document_lists_what_the_router_serves_with_its_scopes() -> None:
    paths = document.build()["paths"]
    assert sorted(f"{method.upper()} {path}" for path, methods in paths.items() for method in methods) == sorted(ALL)
    for route in routes.TABLE:
        security = paths[route.path][route.method.lower()]["security"]
        assert security == ([] if route.scopes is None else [{"key": sorted(scope.value for scope in route.scopes)}])


def test_b087_a_handler_that_is_called_without_an_authorizer_lets_nobody_in(gateway: Gateway) -> None:
    for said in (None, {}, {"lambda": {}}, {"lambda": {"fault": ""}}, {"lambda": None}):
        event = event_v2("GET", "/v1/jobs", headers={"authorization": f"Bearer {gateway.key}"})
        event["requestContext"]["authorizer"] = said
        response = gateway.app("enqueue")(event, None)
        assert response["statusCode"] == 401, said


def test_keys_are_shown_once_used_and_revoked(gateway: Gateway) -> None:
    path = f"/v1/projects/{gateway.project_id}/api-keys"
    made = gateway.post(path, {"name": "ci", "scopes": ["read", "read"], "expires_at": "2030-01-01T00:00:00+01:00"})
    assert made.status == 201
    assert made.json["scopes"] == ["read"]
    assert made.json["expires_at"] == "2029-12-31T23:00:00.000000Z"
    text = made.json["api_key"]
    assert text.startswith("tm_test_" + made.json["id"].replace("-", "") + "_")
    assert gateway.get("/v1/jobs", key=text).status == 200
    listed = gateway.get(path)
    assert text not in listed.text
    assert text.rsplit("_", 1)[1] not in str(gateway.sql("select to_jsonb(k)::text from tidemill.api_keys k"))
    used = next(key for key in listed.json["items"] if key["id"] == made.json["id"])["last_used_at"]
    assert used is not None
    gateway.get("/v1/jobs", key=text)
    assert gateway.sql("select count(distinct last_used_at) from tidemill.api_keys where id = %s", [made.json["id"]]) == [(1,)]
    gateway.sql("update tidemill.api_keys set last_used_at = last_used_at - interval '2 minutes' where id = %s", [made.json["id"]])
    gateway.get("/v1/jobs", key=text)
    assert gateway.sql("select last_used_at > now() - interval '1 minute' from tidemill.api_keys where id = %s", [made.json["id"]]) == [
        (True,)
    ]
    first = gateway.request("DELETE", f"/v1/api-keys/{made.json['id']}").json
    assert first["revoked_at"] is not None
    assert gateway.request("DELETE", f"/v1/api-keys/{made.json['id']}").json == first | {"last_used_at": first["last_used_at"]}
    assert gateway.get("/v1/jobs", key=text).status == 401


@pytest.mark.parametrize("bad", [{"name": ""}, {"scopes": []}, {"scopes": ["root"]}, {"expires_at": "2030-01-01"}, {"secret": "x"}])
def test_keys_with_wrong_fields_are_refused(shared_gateway: Gateway, bad: dict[str, Any]) -> None:
    reply = shared_gateway.post(f"/v1/projects/{shared_gateway.project_id}/api-keys", {"name": "k", "scopes": ["read"], **bad})
    assert reply.status == 422
