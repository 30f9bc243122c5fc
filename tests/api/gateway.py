"""Stands in for the gateway in tests: builds its events, asks the authorizer, invokes the handlers of the repository."""

from __future__ import annotations

import base64
import itertools
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from harness import lent
from harness.databases import as_url
from tidemill.config import Settings
from tidemill.domain import api_keys
from tidemill.http import routes
from tidemill.http.app import App
from tidemill.http.authorize import Authorizer
from tidemill.http.dispatch import Dispatcher
from tidemill.http.problem import STATUSES
from tidemill.http.request import Request
from tidemill.store.bootstrap import SCOPES, Founding, bootstrap

STAGE = "test"


@dataclass(frozen=True)
class Reply:
    """A handler's answer."""

    status: int
    headers: Mapping[str, str]
    text: str
    cookies: tuple[str, ...] = ()

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Context:
    """What Lambda tells a handler about its invocation."""

    function_name = "test"
    memory_limit_in_mb = 256
    invoked_function_arn = "arn:aws:lambda:eu-central-1:0:function:test"
    aws_request_id = "00000000-0000-4000-8000-000000000000"

    def __init__(self, remaining_ms: int = 30_000) -> None:
        self.remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


def event_v2(
    method: str,
    path: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, Any] | None = None,
    base64_body: bool = False,
    stage: str = "$default",
) -> dict[str, Any]:
    """An HTTP API event, payload 2.0. `body`: text as it is, anything else as JSON; `stage`: its prefix is part of the path."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    sent = {"host": "example.test", **({"content-type": "application/json"} if text is not None else {}), **(headers or {})}
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": urlencode(query or {}, doseq=True),
        "headers": sent,
        "requestContext": {
            "accountId": "0",
            "apiId": "test",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "test"},
            "requestId": f"req-{uuid4().hex}",
            "routeKey": "$default",
            "stage": stage,
            "timeEpoch": 0,
        },
        "isBase64Encoded": base64_body,
    }
    if text is not None:
        event["body"] = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode() if base64_body else text
    return event


def event_rest(
    method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None, query: Mapping[str, list[str]] | None = None
) -> dict[str, Any]:
    """A REST API event, payload 1.0: the stage is not in `path`."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    sent = {"Host": "example.test", **({"Content-Type": "application/json"} if text is not None else {}), **(headers or {})}
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": sent,
        "multiValueHeaders": {k: [v] for k, v in sent.items()},
        "queryStringParameters": {k: v[-1] for k, v in (query or {}).items()} or None,
        "multiValueQueryStringParameters": dict(query) if query else None,
        "pathParameters": {"proxy": path.lstrip("/")},
        "stageVariables": None,
        "requestContext": {"httpMethod": method, "path": f"/prod{path}", "stage": "prod", "requestId": f"req-{uuid4().hex}"},
        "body": text,
        "isBase64Encoded": False,
    }


def checked(reply: Reply) -> Reply:
    """The reply; every failure in it has the one shape that API.md gives failures."""
    if reply.status >= 400:
        assert reply.headers["content-type"] == "application/problem+json"
        if reply.text:  # HEAD has none
            problem = reply.json
            assert {"type", "title", "status", "detail", "code", "errors", "request_id"} <= problem.keys()
            assert problem["status"] == reply.status
            assert problem["request_id"] == reply.headers["x-request-id"]
            assert all(error.keys() == {"loc", "msg"} for error in problem["errors"])
            assert STATUSES[problem["code"]][0] == reply.status
        assert reply.status != 503 or int(reply.headers["retry-after"]) > 0
    return reply


class Gateway:
    """All handlers over one database, each with a Dispatcher and a database role of its own, as in as many Lambda environments."""

    def __init__(self, dsn: str, *, log: Any = None, project: tuple[str, str] | None = None, own_roles: bool = True) -> None:
        """own_roles False: whoever logs in is who works, for tests of another role's limits."""
        self._own_roles = own_roles
        self.dsn = dsn
        self.slept: list[float] = []
        self.settings = Settings(stage=STAGE, database_url=dsn)
        self.databases: list[lent.Warm] = []
        self.remaining_ms = 30_000
        self.log = log
        self._apps: dict[str, Any] = {}
        self.authorizer = Authorizer(settings=self.settings, database=self._database("authorizer"), log=log)
        self.project_id, self.key = project or found(dsn)

    def close(self) -> None:
        for database in self.databases:
            database.put_back()

    def request(self, method: str, path: str, body: Any = None, *, key: str | None = "", **more: Any) -> Reply:
        """One request with the first key (`key` None: without)."""
        headers = dict(more.pop("headers", None) or {})
        token = self.key if key == "" else key
        if token is not None:
            headers.setdefault("authorization", f"Bearer {token}")
        return self.send(event_v2(method, path, body=body, headers=headers, **more))

    def get(self, path: str, **more: Any) -> Reply:
        return self.request("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Reply:
        return self.request("POST", path, body, **more)

    def worker(self, *queues: str, **more: Any) -> str:
        """A new worker's id."""
        worker_id: str = self.post("/v1/workers", {"name": "w", "queues": list(queues) or ["default"], **more}).json["worker_id"]
        return worker_id

    def enqueue(self, job_type: str = "t", **fields: Any) -> str:
        """A new job's id."""
        reply = self.post("/v1/jobs", {"job_type": job_type, **fields})
        assert reply.status == 201, reply.text
        job_id: str = reply.json["job"]["id"]
        return job_id

    def claim(self, worker_id: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Claimed jobs."""
        body = {"worker_id": worker_id or str(uuid4()), "queues": ["default"], "limit": 100, **fields}
        reply = self.post("/v1/claims", body)
        assert reply.status == 200, reply.text
        jobs: list[dict[str, Any]] = reply.json["jobs"]
        return jobs

    def ack(self, job: Mapping[str, Any], outcome: str, **fields: Any) -> dict[str, Any]:
        """What the one ack answers."""
        item = {"job_id": job["id"], "lease_token": job["lease_token"], "outcome": outcome, **fields}
        reply = self.post("/v1/acks", {"acks": [item]})
        assert reply.status == 200, reply.text
        result: dict[str, Any] = reply.json["results"][0]
        return result

    def sql(self, statement: str, params: Any = None) -> list[Any]:
        """What a statement gives, on a connection beside those of the functions."""
        with lent.connected(self.dsn) as conn:
            cursor = conn.execute(statement, params)
            return cursor.fetchall() if cursor.description else []

    def send(self, event: dict[str, Any]) -> Reply:
        """What a gateway does: asks the authorizer, then hands the event to the function that serves the path."""
        about = event["requestContext"]
        answer = self.authorizer(event)
        assert answer["isAuthorized"] is True
        about["authorizer"] = {"lambda": answer["context"]} if event.get("version") == "2.0" else answer["context"]
        seen = Request.of(event, Context())
        response = self.app(routes.function_of(seen.method, seen.path))(event, Context(self.remaining_ms))
        return checked(Reply(response["statusCode"], response["headers"], response["body"], tuple(response.get("cookies", ()))))

    def _database(self, function: str) -> lent.Warm:
        database = lent.Warm(as_role(self.dsn, function) if self._own_roles else self.dsn)
        self.databases.append(database)
        return database

    def app(self, function: str) -> Any:
        """The handler of a function; the scheduler's has no App."""
        if function not in self._apps:
            dispatcher = Dispatcher(settings=self.settings, database=self._database(function), sleep=self.slept.append, log=self.log)
            self._apps[function] = _scheduler(dispatcher) if function == "scheduler" else App(function, dispatcher)
        return self._apps[function]


def _scheduler(dispatcher: Dispatcher) -> Any:
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        request = Request.of(event, context)
        return dispatcher.run(request, routes.at(request.path).get(request.method), {})

    return handler


def as_role(dsn: str, function: str) -> str:
    """The same database with the rights of this function's role (migration 0014), whoever logs in."""
    return as_url(dsn, options=f"-crole=tidemill_{function}")


_numbers: Iterator[int] = itertools.count(1)


def found(dsn: str, *, scopes: tuple[str, ...] = SCOPES) -> tuple[str, str]:
    """(project id, API key) of a new project in a new organization."""
    number = next(_numbers)
    key = api_keys.compose(STAGE, UUID(int=uuid4().int), secrets.token_urlsafe(api_keys.SECRET_BYTES))
    founding = Founding(
        email=f"owner{number}@example.test", password_hash="none", api_key=key, scopes=scopes, organization=f"o{number}", slug=f"o{number}"
    )
    with lent.connected(dsn) as conn:
        return bootstrap(conn, founding).project_id, key.text


def add_key(dsn: str, project_id: str, *scopes: str) -> str:
    """Another key of a project."""
    key = api_keys.compose(STAGE, uuid4(), secrets.token_urlsafe(api_keys.SECRET_BYTES))
    with lent.connected(dsn) as conn:
        conn.execute(
            "insert into tidemill.api_keys (id, project_id, name, key_hash, scopes) values (%s, %s, 'k', %s, %s)",
            [key.key_id, project_id, key.digest, list(scopes)],
        )
    return key.text
