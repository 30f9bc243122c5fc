"""B073: no connection is left. 503 with Retry-After, quickly; running jobs keep their share; recovery by itself.

How the share is kept: a function's process holds one connection and each function has a bound on its processes, so a flood of
enqueues ends at enqueue's own bound; heartbeats, claims and acks have processes, and the connections these hold, of their own.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import psycopg
import pytest

from harness.dev import Dev, until
from tidemill.local.runtime.functions import functions

MAX_CONNECTIONS = 24
PROGRAM = f"""
import sys
from tidemill.local.dev import run
from tidemill.local.options import Options
settings = {{"max_connections": "{MAX_CONNECTIONS}", "superuser_reserved_connections": "0"}}
sys.exit(run(Options(port=0, as_json=True, has_worker=False, ticks=False, server_settings=settings)))
"""


@pytest.fixture(scope="module")
def dev() -> Iterator[Dev]:
    with Dev(command=(sys.executable, "-c", PROGRAM)) as running:
        yield running.ready()


@pytest.fixture
def worker(api: httpx.Client) -> str:
    return str(api.post("/v1/workers", json={"name": "w", "queues": ["default"], "max_concurrency": 5}).json()["worker_id"])


class Strangers:
    """Sessions of others that take every connection there is; `with` begins when none is left."""

    def __init__(self, dsn: str) -> None:
        self._dsn, self._stack = dsn, ExitStack()
        self._first = self._stack.enter_context(psycopg.connect(dsn, autocommit=True))

    def __enter__(self) -> "Strangers":
        until(self._took_all, what="the last connection")
        return self

    def take(self) -> None:
        """Take what is free now."""
        with suppress(psycopg.OperationalError):
            while True:
                self._stack.enter_context(psycopg.connect(self._dsn, connect_timeout=5))

    def _took_all(self) -> bool:
        """A session that somebody closed is gone a moment later only: look until there are as many as can be."""
        self.take()
        return self._first.execute("select count(*) from pg_stat_activity where backend_type = 'client backend'").fetchone() == (
            MAX_CONNECTIONS,
        )

    def __exit__(self, *error: Any) -> None:
        self._stack.close()


def begin(api: httpx.Client, worker: str, **claim: Any) -> dict[str, Any]:
    """A job of its own, leased to the worker."""
    made = api.post("/v1/jobs", json={"job_type": "b073"}).json()["job"]["id"]
    (job,) = api.post("/v1/claims", json={"worker_id": worker, "queues": ["default"], "limit": 1, "job_types": ["b073"], **claim}).json()[
        "jobs"
    ]
    assert job["id"] == made
    return dict(job)


def drop_connections(dev: Dev, function: str) -> None:
    """End this function's processes and wait for the server to notice, so that the next call needs a new connection."""
    processes = dev.running(f"{function}.handler")
    ports = [connection.laddr.port for process in processes for connection in process.net_connections("inet") if connection.raddr]
    with psycopg.connect(dev.dsn, autocommit=True) as conn:
        for process in processes:
            process.kill()
        ours = "select count(*) from pg_stat_activity where client_port = any(%s)"
        until(lambda: conn.execute(ours, [ports]).fetchone() == (0,), what="the server's notice")


def test_b073_a_new_connection_that_is_not_there_is_a_quick_503(dev: Dev, api: httpx.Client, worker: str) -> None:
    drop_connections(dev, "enqueue")
    with Strangers(dev.dsn):
        took = []
        for _ in range(5):
            began = time.monotonic()
            answer = api.post("/v1/jobs", json={"job_type": "refused"})
            took.append(time.monotonic() - began)
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert int(answer.headers["retry-after"]) >= 1
        assert min(took) < 5
        assert api.get("/healthz").status_code == 200
        assert api.get("/readyz").status_code == 503
    until(lambda: api.post("/v1/jobs", json={"job_type": "again"}).status_code == 201, what="recovery")
    with psycopg.connect(dev.dsn) as conn:
        assert conn.execute("select count(*) from tidemill.jobs where job_type = 'refused'").fetchone() == (0,)


def test_b073_a_key_that_cannot_be_looked_up_is_a_503_and_no_401(dev: Dev) -> None:
    """Nobody may be told that the key is wrong because neither authorizer nor function could look."""
    drop_connections(dev, "authorizer")
    drop_connections(dev, "enqueue")

    def asked() -> httpx.Response:
        with dev.client() as client:
            return client.post("/v1/jobs", json={"job_type": "a"})

    with Strangers(dev.dsn):
        other = asked()
        assert (other.status_code, other.json()["code"]) == (503, "unavailable")
        assert int(other.headers["retry-after"]) >= 1
    until(lambda: asked().status_code == 201)


def test_b073_running_jobs_live_through_a_flood_and_a_famine(dev: Dev, api: httpx.Client, worker: str) -> None:
    """100 clients enqueue while strangers hold every other connection: heartbeats and the ack of a running job get through."""
    job = begin(api, worker, lease_ms=60_000)
    lease = {"job_id": job["id"], "lease_token": job["lease_token"]}

    def flood(number: int) -> int:
        with dev.client() as client:
            return client.post("/v1/jobs", json={"job_type": "flood", "payload": number}).status_code

    with Strangers(dev.dsn) as strangers, ThreadPoolExecutor(100) as threads:
        flooding = [threads.submit(flood, number) for number in range(150)]
        beats = []
        while not all(call.done() for call in flooding):
            beats.append(api.post(f"/v1/workers/{worker}/heartbeat", json={"leases": [lease]}))
            strangers.take()
        statuses = [call.result() for call in flooding]
        acks = {"acks": [{**lease, "outcome": "complete"}]}
        settled = api.post("/v1/acks", json=acks)
    assert set(statuses) <= {201, 503}
    assert {beat.status_code for beat in beats} == {200}
    assert not any(beat.json()["lost"] for beat in beats)
    assert settled.json()["results"][0]["state"] == "completed"
    with psycopg.connect(dev.dsn) as conn:
        assert conn.execute("select count(*) from tidemill.jobs where job_type = 'flood'").fetchone() == (statuses.count(201),)
    until(lambda: flood(0) == 201, what="recovery")


def test_b073_no_function_takes_more_connections_than_its_bound(dev: Dev, api: httpx.Client) -> None:
    def call(number: int) -> int:
        with dev.client() as client:
            return client.post("/v1/jobs", json={"job_type": "bound"}).status_code

    with ThreadPoolExecutor(60) as threads:
        calls = [threads.submit(call, number) for number in range(120)]
        most = 0
        with psycopg.connect(dev.dsn, autocommit=True) as conn:
            while not all(made.done() for made in calls):
                row = conn.execute("select count(*) from pg_stat_activity where application_name = 'tidemill'").fetchone()
                assert row is not None
                most = max(most, row[0])
    bounds = functions()
    assert {made.result() for made in calls} <= {201, 503}
    assert 1 <= most <= bounds["enqueue"].max_processes + bounds["authorizer"].max_processes + 2 * bounds["claims"].keeps_warm + 2
