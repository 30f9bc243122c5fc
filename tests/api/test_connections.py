"""B072, B073: connections that died, turned read-only or cannot be had."""

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from api.gateway import Gateway
from harness.clock import allowed
from harness.databases import as_url
from tidemill.local import postgres
from tidemill.store.migrate import migrate


def terminate(gateway: Gateway) -> None:
    gateway.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")


def idle(gateway: Gateway) -> None:
    """As if the environment had been frozen for a while."""
    for database in gateway.databases:
        database._used_at -= 3_600


@pytest.mark.parametrize("frozen", [True, False])
def test_b072_after_killed_connections_at_most_one_call_fails(gateway: Gateway, frozen: bool) -> None:
    gateway.enqueue()
    for _ in range(3):
        terminate(gateway)
        if frozen:
            idle(gateway)
        statuses = [gateway.get("/v1/jobs").status for _ in range(20)]
        # the authorizer and the handler have a connection each
        assert statuses.count(503) <= (0 if frozen else 1)
        assert set(statuses) <= {200, 503}
        assert statuses[-1] == 200


def test_b072_no_write_is_repeated_after_a_broken_connection(gateway: Gateway) -> None:
    gateway.enqueue()
    created = 1
    for _ in range(5):
        terminate(gateway)
        created += sum(gateway.post("/v1/jobs", {"job_type": "t"}).status == 201 for _ in range(4))
    assert gateway.sql("select count(*) from tidemill.jobs") == [(created,)]


@pytest.mark.parametrize("frozen", [True, False])
def test_b072_a_session_that_turned_read_only_is_replaced(gateway: Gateway, frozen: bool) -> None:
    gateway.enqueue()
    for database in gateway.databases:
        if database._conn is not None:
            database._conn.execute("set default_transaction_read_only = on")  # what is left of a failover
    if frozen:
        idle(gateway)
    statuses = [gateway.post("/v1/jobs", {"job_type": "t"}).status for _ in range(20)]
    assert statuses.count(503) <= (0 if frozen else 1)
    assert statuses.count(201) == 20 - statuses.count(503)


def test_b072_a_worker_goes_on_after_a_restart_of_the_server(own_server: postgres.Server) -> None:
    dsn = own_server.dsn
    migrate(dsn)
    gateway = Gateway(dsn)
    try:
        worker = gateway.worker()
        gateway.enqueue()
        (job,) = gateway.claim(worker)
        own_server.restart()
        answers = [
            gateway.post("/v1/acks", {"acks": [{"job_id": job["id"], "lease_token": job["lease_token"], "outcome": "complete"}]})
            for _ in range(20)
        ]
        assert sum(reply.status == 503 for reply in answers) <= 1
        assert answers[-1].json["results"][0]["status"] == "ok"
    finally:
        gateway.close()


@pytest.fixture
def limited(gateway: Gateway) -> Iterator[Gateway]:
    """The same project through a role that may have four connections."""
    with psycopg.connect(gateway.dsn, autocommit=True) as conn:
        role = sql.Identifier("limited_" + str(psycopg.conninfo.conninfo_to_dict(gateway.dsn)["dbname"])[-12:])
        conn.execute(sql.SQL("create role {} login password 'limited' connection limit 4").format(role))
        conn.execute(sql.SQL("grant usage on schema tidemill to {}").format(role))
        conn.execute(sql.SQL("grant all on all tables in schema tidemill to {}").format(role))
        conn.execute(sql.SQL("grant all on all sequences in schema tidemill to {}").format(role))
        dsn = as_url(gateway.dsn, user=role.as_string(conn).strip('"'), password="limited")
        made = Gateway(dsn, project=(gateway.project_id, gateway.key), own_roles=False)
        yield made
        made.close()
        conn.execute(sql.SQL("drop owned by {}").format(role))
        conn.execute(sql.SQL("drop role {}").format(role))


def test_b073_no_free_connection_is_a_quick_503_and_mends_itself(limited: Gateway) -> None:
    held: list[Any] = [psycopg.connect(limited.dsn) for _ in range(4)]
    began = time.perf_counter()
    for method, path, body in [("POST", "/v1/jobs", {"job_type": "t"}), ("POST", "/v1/acks", {"acks": []}), ("GET", "/v1/jobs", None)]:
        reply = limited.request(method, path, body)
        assert (reply.status, reply.json["code"]) == (503, "unavailable")
        assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert time.perf_counter() - began < allowed(10)
    for conn in held:
        conn.close()
    deadline = time.monotonic() + 120
    while (reply := limited.post("/v1/jobs", {"job_type": "t"})).status == 503:
        assert time.monotonic() < deadline  # the server notices the ends of the others a moment later
    assert reply.status == 201


def test_b073_an_environment_that_has_a_connection_keeps_it_while_others_get_none(limited: Gateway) -> None:
    limited.enqueue()
    (job,) = limited.claim()  # authorizer, enqueue and claims have theirs now
    held = [psycopg.connect(limited.dsn)]
    try:
        assert limited.ack(job, "complete")["status"] == "ok"
        assert limited.get("/v1/queues").status == 503  # the admin handler was not running yet
        assert limited.post("/v1/jobs", {"job_type": "t"}).status == 201
    finally:
        held[0].close()
