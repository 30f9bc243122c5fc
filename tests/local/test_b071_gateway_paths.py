"""B071: however a request reaches the gateway (stage, domain mapping, slashes, header case), the real functions answer alike."""

import asyncio
import os
import secrets
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import psycopg
import pytest

from tidemill.domain import api_keys
from tidemill.local.gateway import Gateway
from tidemill.local.runtime.functions import functions
from tidemill.local.runtime.runtime import Runtime
from tidemill.passwords import hash_password
from tidemill.store.bootstrap import Founding, bootstrap
from tidemill.store.database import connect

WAYS = {
    "default stage": ("$default", ""),
    "stage prod": ("prod", "/prod"),
    "domain mapping v1": ("$default", "/v1"),
    "stage called v1": ("v1", "/v1"),
}
SHAPES = {"plain": "{}", "trailing slash": "{}/", "double slash": "/{}", "slashes all over": "//{}//"}


@pytest.fixture
def key(database: str) -> api_keys.ApiKey:
    made = api_keys.compose("test", uuid.uuid4(), secrets.token_urlsafe(api_keys.SECRET_BYTES))
    with connect(database) as conn:
        founded = bootstrap(conn, Founding(email="o@example.com", password_hash=hash_password("x"), api_key=made))
        conn.execute("insert into tidemill.queues (id, project_id, name) values (gen_random_uuid(), %s, 'prod')", [founded.project_id])
    return made


class Ways:
    """One runtime, a gateway per way, all in one event loop."""

    def __init__(self, database: str, key: api_keys.ApiKey, log: IO[bytes]) -> None:
        self._loop = asyncio.Runner()
        self._runtime = Runtime(functions(), {"TIDEMILL_DATABASE_URL": database, "TIDEMILL_STAGE": "test"}, log)
        self._gateways = {stage: Gateway(self._runtime, stage=stage) for stage, _ in WAYS.values()}
        self._key = key

    def ask(self, way: str, method: str, path: str, headers: dict[str, str] | None = None, **arguments: Any) -> httpx.Response:
        stage, prefix = WAYS[way]
        headers = {"Authorization": f"Bearer {self._key.text}"} if headers is None else headers

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self._gateways[stage]), base_url="http://h") as client:
                return await client.request(method, f"http://h{prefix}{path}", headers=headers, **arguments)

        return self._loop.run(send())

    def close(self) -> None:
        self._loop.run(self._runtime.close())
        self._loop.close()


@pytest.fixture
def ways(database: str, key: api_keys.ApiKey) -> Iterator[Ways]:
    with Path(os.devnull).open("wb") as log:
        made = Ways(database, key, log)
        yield made
        made.close()


def matter(answer: httpx.Response) -> dict[str, Any]:
    """What must be equal: all but ids, times and the date."""
    body = answer.json() if answer.content else None
    if isinstance(body, dict):
        body.pop("request_id", None)
        if "job" in body:
            body["job"] = {k: v for k, v in body["job"].items() if k in ("job_type", "queue", "state", "payload")}
    kept = ("content-type", "allow", "www-authenticate", "cache-control")
    return {"status": answer.status_code, "body": body, "headers": {name: answer.headers.get(name) for name in kept}}


REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/v1/version", {}),
    ("POST", "/v1/jobs", {"json": {"job_type": "a.b", "queue": "prod", "payload": {"n": 1}}}),
    ("POST", "/v1/jobs", {"json": {"job_type": "!"}}),
    ("POST", "/v1/acks", {"json": {"acks": []}}),
    ("GET", "/healthz", {}),
    ("HEAD", "/v1/version", {}),
    ("OPTIONS", "/v1/jobs", {}),
    ("PUT", "/v1/claims", {"json": {}}),
    ("GET", "/v1/no/such/thing", {}),
    ("GET", "/v1/version", {"headers": {}}),
    ("GET", "/v1/version", {"headers": {"Authorization": "Bearer wrong"}}),
]


def test_b071_every_way_and_every_shape_gets_the_same_answer(ways: Ways) -> None:
    unlike = []
    for method, path, arguments in REQUESTS:
        first = matter(ways.ask("default stage", method, path, **arguments))
        for way in WAYS:
            for shape, form in SHAPES.items():
                given = matter(ways.ask(way, method, form.format(path), **arguments))
                if given != first:
                    unlike.append((method, path, way, shape, given, first))
    assert not unlike, unlike[0]


def test_b071_answers_are_the_right_ones(ways: Ways) -> None:
    statuses = [ways.ask("stage prod", method, path, **arguments).status_code for method, path, arguments in REQUESTS]
    assert statuses == [200, 201, 422, statuses[3], 200, 200, 405, 405, 404, 401, 401]
    missing = ways.ask("stage prod", "GET", "/v1/no/such/thing")
    assert (missing.headers["content-type"], missing.json()["code"]) == ("application/problem+json", "not_found")


def test_b071_header_case_does_not_matter_and_repeats_are_one_header(ways: Ways) -> None:
    key = ways._key.text
    for headers in ({"AUTHORIZATION": f"Bearer {key}"}, {"authorization": f"bearer {key}"}, {"aUtHoRiZaTiOn": f"BEARER {key}"}):
        assert ways.ask("default stage", "GET", "/v1/version", headers=headers).status_code == 200
    twice = httpx.Headers([("authorization", f"Bearer {key}"), ("authorization", f"Bearer {key}")])
    assert ways.ask("default stage", "GET", "/v1/version", headers=twice).status_code == 401


def test_b071_a_queue_called_like_the_stage_keeps_its_name(ways: Ways, database: str) -> None:
    made = ways.ask("stage prod", "POST", "/v1/jobs", json={"job_type": "a", "queue": "prod"})
    assert made.json()["job"]["queue"] == "prod"
    with psycopg.connect(database) as conn:
        assert conn.execute("select count(*) from tidemill.jobs").fetchone() == (1,)
