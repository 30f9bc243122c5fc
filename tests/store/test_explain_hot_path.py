"""What the statements of the hot path read, whatever the statistics say: never a whole table, never another job's rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import Connection

from harness import crowd
from harness.crowd import BIG, PROJECT, QUEUE, WORKER, Plan
from harness.databases import Databases
from tidemill.domain.jobs import Ack, ClaimRequest, Failure, Heartbeat, Lease, LogLine
from tidemill.domain.transitions import Event
from tidemill.engine import operate, report
from tidemill.engine.claim import claim, start
from tidemill.engine.enqueue import enqueue
from tidemill.engine.heartbeat import heartbeat
from tidemill.engine.reap import reap
from tidemill.engine.settle import settle
from tidemill.runner.sources.link import PLANS
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

STATISTICS = ("never analysed", "analysed when empty", "analysed")
BATCH = 100
CLAIM = {"project_id": PROJECT, "queues": ["default"], "job_types": None, "worker_id": WORKER, "lease_ms": None, "start": True,
         "limit": BATCH, "since_queues": [], "since_priorities": [], "since_at": [], "now": None}  # fmt: skip


def fill(dsn: str, *before: LiteralString) -> None:
    """200,000 jobs: finished, scheduled, leased, due; half of them hold a key."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        crowd.keep_statistics(conn)
        crowd.found(conn)
        for statement in before:
            conn.execute(statement)
        crowd.fill(conn, crowd.FINISHED, 100_000, "-1 day")
        crowd.fill(conn, crowd.ENTRIES, 60_000, "1 day", step="1 s")
        crowd.fill(conn, crowd.ENTRIES, 20_000, "-1 hour")
        crowd.fill(conn, crowd.LEASES, 20_000, "-1 hour")
        crowd.fill(conn, crowd.HOLDS, 100_000, "-2 days", jobs=0)


@pytest.fixture(scope="module")
def unknown(databases: Databases) -> Iterator[str]:
    """Filled, and nobody has analysed it. Others are copies, in a tenth of the time; nothing that a test does stays."""
    dsn = databases.clone()
    fill(dsn)
    yield dsn
    databases.drop(dsn)


@pytest.fixture(scope="module", params=STATISTICS)
def crowded(request: pytest.FixtureRequest, databases: Databases) -> Iterator[str]:
    if request.param == "analysed when empty":
        dsn = databases.clone()
        fill(dsn, "vacuum analyze")
    else:
        dsn = databases.copy(request.getfixturevalue("unknown"))
    if request.param == "analysed":
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("analyze")
    yield dsn
    databases.drop(dsn)


@pytest.fixture
def conn(crowded: str) -> Iterator[Connection]:
    """A connection as Lambdas have it; nothing that a test does stays."""
    with connect(crowded) as connection:
        connection.execute("begin")
        yield connection
        connection.execute("rollback")


@pytest.fixture
def store(conn: Connection) -> PostgresStore:
    return PostgresStore(conn)


def leases(conn: Connection, count: int = BATCH) -> list[Lease]:
    rows = conn.execute("select job_id::text, lease_token::text from tidemill.job_leases order by job_id limit %s", [count]).fetchall()
    return [Lease(*row) for row in rows]


def pairs(conn: Connection) -> dict[str, Any]:
    held = leases(conn)
    return {"job_ids": [x.job_id for x in held], "tokens": [x.lease_token for x in held], "now": None}


def moves(conn: Connection) -> dict[str, Any]:
    held = leases(conn)
    items = [
        {"job_id": x.job_id, "token": x.lease_token, "to": "scheduled" if n % 2 else "dead_letter", "status": "failed", "attempt_count": 1,
         "crash_count": 0, "delay_ms": 1000, "reason": "failed", "error_class": "E", "error_message": "m", "digest": n}
        for n, x in enumerate(held)
    ]  # fmt: skip
    return {"job_ids": [x.job_id for x in held], "moves": json.dumps(items), "keep": 99, "now": None}


HOT: dict[str, tuple[Callable[[Connection], dict[str, Any]], set[str], int]] = {
    # statement: its parameters, the indexes of big tables it goes by, and the blocks it may touch (for a batch of 100)
    "transitions/claim": (lambda conn: CLAIM, {"job_queue_entries_pkey", "jobs_pkey"}, 3_000),
    "transitions/complete": (
        lambda conn: pairs(conn) | {"results": [None] * BATCH, "digests": [7] * BATCH}, {"job_leases_pkey"}, 2_000,
    ),
    "transitions/settle": (moves, {"job_leases_pkey", "jobs_pkey", "job_executions_pkey"}, 6_000),
    "leases/leased": (pairs, {"job_leases_pkey", "jobs_pkey"}, 2_500),
    "leases/heartbeat": (pairs, {"job_leases_pkey"}, 3_000),
    "leases/acked": (pairs, set(), 1_500),
    "leases/expired": (lambda conn: {"limit": BATCH, "since": None, "now": None}, {"job_leases_by_expiry", "jobs_pkey"}, 2_500),
    "scheduler/ring": (lambda conn: {"limit": BATCH, "since": None, "now": None}, {"job_queue_entries_pkey"}, 1_500),
}  # fmt: skip


@pytest.mark.parametrize("name", HOT)
def test_statement_finds_its_rows_by_index(conn: Connection, name: str) -> None:
    params, indexes, blocks = HOT[name]
    plan = crowd.explain(conn, name, params(conn))
    assert plan.scans == []
    assert indexes <= plan.indexes, plan.indexes
    assert plan.blocks <= blocks


@pytest.mark.parametrize("name", HOT)
def test_plan_for_any_values_finds_its_rows_by_index(conn: Connection, name: str) -> None:
    """As a worker's connection plans it: once, for values it does not know."""
    params, _, blocks = HOT[name]
    given = params(conn)
    conn.execute(PLANS)
    plan = crowd.run_prepared(conn, name, crowd.prepare(conn, name), given)
    conn.execute("deallocate all")
    assert plan.scans == []
    assert plan.blocks <= blocks


def test_claim_passes_by_what_is_scheduled(conn: Connection) -> None:
    """60,000 scheduled entries cost a claim nothing: it reads what it takes and stops."""
    plan = crowd.explain(conn, "transitions/claim", CLAIM)
    assert max(n["Actual Rows"] for n in plan.nodes if n.get("Relation Name") == "job_queue_entries") <= BATCH
    conn.execute("delete from tidemill.job_queue_entries where run_at <= now()")
    empty = crowd.explain(conn, "transitions/claim", CLAIM | {"since_queues": [QUEUE], "since_priorities": [0], "since_at": ["now"]})
    assert empty.blocks < 30


def test_an_idle_worker_walks_no_dead_rows(databases: Databases) -> None:
    """Under an old snapshot dead rows stay in the index; a worker that finds nothing keeps its marks and looks only above them."""
    dsn = databases.clone()
    with connect(dsn) as conn, connect(dsn) as reader:
        crowd.found(conn)
        reader.execute("begin isolation level repeatable read")
        reader.execute("select count(*) from tidemill.jobs").fetchone()
        crowd.fill(conn, crowd.ENTRIES, 5_000, "-1 hour")
        store = PostgresStore(conn)
        while claim(store, ClaimRequest(PROJECT, WORKER, ["default"], 500)):
            pass
        store.watermarks.forget()
        assert claim(store, ClaimRequest(PROJECT, WORKER, ["default"], 500)) == []  # the scan that is due
        queues, priorities, instants = store.watermarks.since(None)
        conn.execute("begin")
        idle = crowd.explain(
            conn, "transitions/claim", CLAIM | {"since_queues": queues, "since_priorities": priorities, "since_at": instants}
        )
        scan = crowd.explain(conn, "transitions/claim", CLAIM)
        conn.execute("rollback")
        reader.execute("rollback")
    databases.drop(dsn)
    assert scan.blocks > 100  # the dead rows are there
    assert idle.blocks < scan.blocks / 5


def test_claim_by_job_type_looks_at_no_other_jobs(conn: Connection) -> None:
    plan = crowd.explain(conn, "transitions/claim", CLAIM | {"job_types": ["crowd.3"]})
    assert plan.scans == []
    assert plan.blocks <= 9_000  # one job in seven has that type


Verb = Callable[[PostgresStore, list[Lease]], object]
VERBS: dict[str, tuple[Verb, int]] = {
    # what is called, and how many rows of the big tables it may read and write
    "enqueue one": (lambda store, _: enqueue(store, PROJECT, [{"job_type": "a"}]), 10),
    "enqueue 100": (lambda store, _: enqueue(store, PROJECT, [{"job_type": "a", "payload": {"i": i}} for i in range(100)]), 400),
    "enqueue 100 with keys": (
        lambda store, _: enqueue(store, PROJECT, [{"job_type": "a", "idempotency_key": f"k{i}", "unique": {}} for i in range(100)]), 2_500,
    ),
    "claim": (lambda store, _: claim(store, ClaimRequest(PROJECT, WORKER, ["default"], 100)), 1_000),
    "complete": (lambda store, held: settle(store, acks(held, Event.COMPLETE), roll=random.random), 500),
    "fail": (lambda store, held: settle(store, acks(held, Event.FAIL), roll=random.random), 2_500),
    "release": (lambda store, held: settle(store, acks(held, Event.RELEASE), roll=random.random), 2_500),
    "lost acks": (lambda store, held: settle(store, [Ack(x.job_id, PROJECT, Event.COMPLETE, 1) for x in held], roll=random.random), 1_500),
    "heartbeat": (lambda store, held: heartbeat(store, PROJECT, WORKER, Heartbeat(held)), 1_000),
    "start": (lambda store, held: start(store, held[0]), 10),
    "progress": (lambda store, held: report.progress(store, held[0], 1, 2, "m"), 10),
    "checkpoint": (lambda store, held: report.checkpoint(store, held[0], "{}", None), 10),
    "output": (lambda store, held: report.output(store, held[0], "{}"), 10),
    "logs": (lambda store, held: report.logs(store, held[0], [LogLine(held_at(store), "info", "m")]), 10),
    "cancel": (lambda store, held: operate.cancel(store, PROJECT, held[0].job_id, roll=random.random), 20),
    "cancel by force": (lambda store, held: operate.cancel(store, PROJECT, held[0].job_id, force=True, roll=random.random), 60),
    "reap": (lambda store, _: reap(store, limit=100, roll=random.random, now=held_at(store, "1 day")), 4_000),
    "ring": (lambda store, _: store.ring(100, now=None), 200),
    "prune": (lambda store, _: store.prunable(100, now=held_at(store, "30 days")), 400),
    "prune holds": (lambda store, _: store.prune_holds(100, now=None), 10),
}  # fmt: skip


def acks(held: list[Lease], event: Event) -> list[Ack]:
    failure = Failure("E", "m") if event is Event.FAIL else None
    return [Ack(x.job_id, x.lease_token, event, 1, failure=failure) for x in held]


def held_at(store: PostgresStore, later: str = "0") -> Any:
    row = store._conn.execute("select now() + %s::interval", [later]).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("verb", VERBS)
def test_verb_reads_only_what_it_moves(conn: Connection, store: PostgresStore, verb: str) -> None:
    """Counted by the server over everything the verb does, functions included."""
    call, rows = VERBS[verb]
    held = leases(conn)
    before = crowd.touched(conn)
    call(store, held)
    after = crowd.touched(conn)
    assert after.seq_rows == before.seq_rows
    assert after.index_rows - before.index_rows + after.written - before.written <= rows


def test_a_plan_kept_from_an_empty_queue_serves_a_full_one(databases: Databases) -> None:
    """A worker plans while its queue is empty and vacuumed, and keeps the plan: it once drained 300 jobs a second by it."""
    dsn = databases.clone()
    with psycopg.connect(dsn, autocommit=True) as conn, psycopg.connect(dsn, autocommit=True) as worker:
        crowd.needs_plans_of_17(conn)
        crowd.keep_statistics(conn)
        crowd.found(conn)
        conn.execute("vacuum analyze")
        worker.execute(PLANS)
        orders = {name: crowd.prepare(worker, name) for name in HOT}
        for name, order in orders.items():
            given = HOT[name][0](worker)
            crowd.run_prepared(worker, name, order, given | {"moves": "[]"} if "moves" in given else given)
        crowd.fill(conn, crowd.ENTRIES, 20_000, "-1 hour")
        crowd.fill(conn, crowd.LEASES, 20_000, "-1 hour")
        crowd.fill(conn, crowd.HOLDS, 20_000, "-1 hour", jobs=0)
        for name, order in orders.items():
            params, _, blocks = HOT[name]
            worker.execute("begin")
            plan: Plan = crowd.run_prepared(worker, name, order, params(worker))
            worker.execute("rollback")
            assert plan.scans == [], name
            assert plan.blocks <= blocks, name
            assert plan.most_rows <= 110 * BATCH, name  # settle may compare each of a batch with each; nothing may meet the crowd
    databases.drop(dsn)


def test_the_big_tables_are_those_that_grow(conn: Connection) -> None:
    """A table that grows with the jobs and is not watched here would slip through."""
    row = conn.execute(
        "select array_agg(relname::text) from pg_stat_user_tables where schemaname = 'tidemill' and relname = any(%s)", [list(BIG)]
    )
    assert sorted(row.fetchone()[0]) == sorted(BIG)
