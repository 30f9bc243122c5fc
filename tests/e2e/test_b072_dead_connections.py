"""B072: a warm function meets connections that died, a restarted server, a session that became read-only. One 503 at most in 20 calls."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import psutil
import psycopg
import pytest

from harness.dev import Dev, has_ended, until
from tidemill.store.database import PROBE_AFTER_SECS

CALLS = 20


def enqueue(api: httpx.Client, mark: str) -> httpx.Response:
    return api.post("/v1/jobs", json={"job_type": "b072", "payload": {"mark": mark}})


def claim(api: httpx.Client, worker_id: str) -> httpx.Response:
    return api.post("/v1/claims", json={"worker_id": worker_id, "queues": ["default"], "limit": 1, "job_types": ["b072.none"]})


def stored(dsn: str, mark: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select count(*) from tidemill.jobs where payload ->> 'mark' = %s", [mark]).fetchone()
    assert row is not None
    return int(row[0])


def terminate_all(dev: Dev) -> None:
    with psycopg.connect(dev.dsn, autocommit=True) as conn:
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'"
        )


def restart_server(dev: Dev) -> None:
    with psycopg.connect(dev.dsn) as conn:
        postmaster = psutil.Process(conn.info.backend_pid).ppid()
    os.kill(postmaster, signal.SIGQUIT)
    until(lambda: has_ended(postmaster), what="the end of the server")
    until(lambda: answers(dev.dsn), what="the server's return")


def answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def read_only(dev: Dev, *, new_sessions: bool) -> Iterator[None]:
    """The server's sessions take no writes, as after a failover. new_sessions False: those that are opened from now on do."""

    def run(*statements: str) -> None:
        with psycopg.connect(dev.dsn, autocommit=True, options="-c default_transaction_read_only=off") as conn:
            for statement in statements:
                conn.execute(statement)

    with psycopg.connect(dev.dsn, autocommit=True) as old:
        if not new_sessions:
            run("alter role postgres set default_transaction_read_only = off")  # wins over the file's, for who logs in from now on
        run("alter system set default_transaction_read_only = on", "select pg_reload_conf()")
        until(lambda: old.execute("show default_transaction_read_only").fetchone() == ("on",), what="the reload")
        try:
            yield
        finally:
            run("alter system reset default_transaction_read_only", "alter role postgres reset default_transaction_read_only")
            run("select pg_reload_conf()")
            until(lambda: old.execute("show default_transaction_read_only").fetchone() == ("off",), what="the reload")


@pytest.fixture(scope="module")
def worker_id(dev: Dev) -> str:
    with dev.client() as client:
        return str(client.post("/v1/workers", json={"name": "w", "queues": ["default"], "max_concurrency": 1}).json()["worker_id"])


@pytest.mark.parametrize("broken", [terminate_all, restart_server], ids=lambda call: call.__name__)
@pytest.mark.parametrize("idles", [False, True], ids=["at once", "after a pause"])
def test_b072_at_most_one_503_and_no_job_twice(
    dev: Dev, api: httpx.Client, worker_id: str, broken: Callable[[Dev], None], idles: bool
) -> None:
    mark = f"{broken.__name__} {idles}"
    assert enqueue(api, "warm").status_code == 201
    assert claim(api, worker_id).status_code == 200
    broken(dev)
    if idles:
        pause()  # a connection that idled is probed before anything is sent over it
    statuses = [enqueue(api, mark).status_code for _ in range(CALLS)]
    claims = [claim(api, worker_id).status_code for _ in range(CALLS)]
    assert set(statuses) <= {201, 503}, statuses
    assert set(claims) <= {200, 503}, claims
    assert statuses.count(503) <= 1
    assert claims.count(503) <= 1
    if idles:
        assert 503 not in statuses + claims
    assert stored(dev.dsn, mark) == statuses.count(201)


def pause() -> None:
    """Longer than the store trusts an idle connection without a question."""
    threading.Event().wait(PROBE_AFTER_SECS + 0.2)


def test_b072_each_of_several_warm_processes_recovers(dev: Dev, api: httpx.Client) -> None:
    """Twenty calls at once use several processes, each with a dead connection of its own: at most one 503 for each."""

    def call(number: int) -> int:
        return enqueue(api, f"many {number}").status_code

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(call, range(40)))
        processes = len(dev.running("enqueue.handler"))
        terminate_all(dev)
        statuses = list(threads.map(call, range(40, 100)))
    assert set(statuses) <= {201, 503}
    assert statuses.count(503) <= processes
    assert [call(number) for number in range(100, 110)] == [201] * 10


def test_b072_a_server_without_writes_is_a_503_with_retry_after_until_it_writes_again(dev: Dev, api: httpx.Client) -> None:
    assert enqueue(api, "warm").status_code == 201
    with read_only(dev, new_sessions=True):
        during = enqueue(api, "read only")
        assert (during.status_code, during.json()["code"]) == (503, "unavailable")
        assert int(during.headers["retry-after"]) >= 1
    statuses = [enqueue(api, "writable").status_code for _ in range(CALLS)]
    assert set(statuses) <= {201, 503}
    assert statuses.count(503) <= 1
    assert (stored(dev.dsn, "writable"), stored(dev.dsn, "read only")) == (statuses.count(201), 0)


def test_b072_a_session_that_became_read_only_is_replaced(dev: Dev, api: httpx.Client) -> None:
    """Only what is connected already is read-only: the next connection writes."""
    assert enqueue(api, "warm").status_code == 201
    with read_only(dev, new_sessions=False):
        statuses = [enqueue(api, "own session").status_code for _ in range(CALLS)]
    assert set(statuses) <= {201, 503}
    assert statuses.count(503) <= 1
    assert stored(dev.dsn, "own session") == statuses.count(201)


@pytest.mark.parametrize("broken", [terminate_all, restart_server], ids=lambda call: call.__name__)
def test_b072_a_worker_goes_on_without_a_restart(dev: Dev, api: httpx.Client, worker_id: str, broken: Callable[[Dev], None]) -> None:
    broken(dev)
    made: list[str] = []

    def comes_in() -> bool:
        answer = enqueue(api, "goes on")
        made.extend([answer.json()["job"]["id"]] if answer.status_code == 201 else [])
        return bool(made)

    def is_claimed() -> bool:
        ask = {"worker_id": worker_id, "queues": ["default"], "limit": 500, "job_types": ["b072"]}
        answer = api.post("/v1/claims", json=ask)
        return answer.status_code == 200 and made[0] in {job["id"] for job in answer.json()["jobs"]}

    until(comes_in)
    until(is_claimed)
