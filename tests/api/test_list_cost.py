"""What lists cost the database: index look-ups, whether the tables have been analysed or not, whatever their size."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pytest

from api.gateway import Gateway
from harness.databases import Databases
from tidemill.store import job_filters
from tidemill.store.lists import Place
from tidemill.store.statements import sql

JOBS = 30_000
MOST_BUFFERS = 2_500
"""For at most 200 rows: some ten pages each at the very worst. Tables are read whole only where that is less than so many look-ups."""


class Filled(NamedTuple):
    conn: psycopg.Connection[Any]
    project_id: str
    ids: list[str]


@pytest.fixture(scope="module")
def unknown(databases: Databases) -> Iterator[tuple[str, str]]:
    """A database that nobody has analysed, and its first project: 30,000 jobs, half of them completed, 500 dead, 300 running, the rest due
    or ahead; another project with as many.
    """
    gateway = Gateway(databases.clone())
    with psycopg.connect(gateway.dsn, autocommit=True, prepare_threshold=None) as conn:
        for table in ("jobs", "job_executions", "job_queue_entries", "job_leases"):
            conn.execute(f"alter table tidemill.{table} set (autovacuum_enabled = false)")
        other = Gateway(gateway.dsn)
        other.close()
        for project_id in (gateway.project_id, other.project_id):
            for begin in range(0, JOBS, 1_000):
                jobs = [
                    {"job_type": f"t{n % 7}", "payload": {"user_id": f"u{n % 100}"}, **({"delay_ms": 10**7 + n} if n % 4 == 0 else {})}
                    for n in range(begin, begin + 1_000)
                ]
                conn.execute("select count(*) from tidemill.enqueue(%s, %s)", [project_id, json.dumps(jobs)])
        worker = str(uuid4())
        for outcome, rounds in (("complete", 20), ("fail", 1), (None, 1)):
            for _ in range(rounds):
                claimed = gateway.claim(worker, limit=500)
                acks = [{"job_id": job["id"], "lease_token": job["lease_token"], "outcome": outcome, "retryable": False} for job in claimed]
                if outcome:
                    assert gateway.post("/v1/acks", {"acks": acks}).status == 200
    gateway.close()
    yield gateway.dsn, gateway.project_id
    databases.drop(gateway.dsn)


@pytest.fixture(scope="module", params=["unknown", "analysed"])
def filled(request: pytest.FixtureRequest, databases: Databases, unknown: tuple[str, str]) -> Iterator[Filled]:
    """A copy, which takes a tenth of the time."""
    original, project_id = unknown
    dsn = databases.copy(original)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as conn:
        if request.param == "analysed":
            conn.execute("analyze")
        newest = "select id::text from tidemill.jobs where project_id = %s order by id desc limit 200"
        ids = [row[0] for row in conn.execute(newest, [project_id])]
        yield Filled(conn, project_id, ids)
    databases.drop(dsn)


def cost(filled: Filled, name: str, params: dict[str, Any]) -> tuple[int, int]:
    """(rows, pages touched) of a statement."""
    (plan,) = filled.conn.execute(b"explain (analyze, buffers, format json) " + sql(name), params).fetchone()[0]
    return plan["Plan"]["Actual Rows"], plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]


def test_no_list_reads_a_table(filled: Filled, capsys: pytest.CaptureFixture[str]) -> None:
    start = {"project_id": filled.project_id, "after": None, "after_key": None, "limit": 201, "low": None, "high": None}
    walks: dict[str, dict[str, Any]] = {
        "created": {}, "principal": {"value": "u7"}, "correlation": {"value": "nothing"}, "fingerprint": {"value": "00" * 32}, "leased": {},
        "schedule": {"value": str(uuid4())}, "entered": {"few": 2_500}, "error_group": {"value": "00" * 16},
        "named": {"value": filled.ids[0], "id": filled.ids[0]}, "phases": {"phases": ["dead_letter", "waiting"]},
        "waiting": {"queue": None}, "ended": {},
    }  # fmt: skip
    told = []
    for name, values in walks.items():
        for descending in (True, False):
            rows, buffers = cost(filled, f"lists/{name}", start | values | {"descending": descending})
            told.append(f"{name}{' desc' if descending else ''}: {rows} rows {buffers} pages")
            assert buffers <= MOST_BUFFERS, told[-1]
    filters = job_filters.filters_of({"job_type": "t1", "state": ["queued", "completed"]})
    everything = dict.fromkeys(filters) | {"retrying": False}
    for given in (filters, everything):
        rows, buffers = cost(filled, "lists/matching", {"project_id": filled.project_id, "ids": filled.ids, "batch_id": None, **given})
        told.append(f"matching: {rows} rows {buffers} pages")
        assert buffers <= 2 * MOST_BUFFERS
    rows, buffers = cost(filled, "jobs/by_id", {"project_id": filled.project_id, "job_ids": filled.ids, "payload": True})
    told.append(f"by_id: {rows} rows {buffers} pages")
    assert buffers <= 2 * MOST_BUFFERS
    with capsys.disabled():
        print("\n" + "\n".join(told))


def test_a_walk_from_the_middle_costs_what_one_from_the_start_costs(filled: Filled) -> None:
    middle = filled.conn.execute(
        "select id::text, run_at from tidemill.jobs where project_id = %s order by id offset 15000 limit 1", [filled.project_id]
    )
    job_id, run_at = middle.fetchone()
    for name, key in (("created", None), ("waiting", run_at), ("ended", datetime.now(UTC))):
        place = Place(key, job_id)
        params = {
            "project_id": filled.project_id,
            "after": place.id,
            "after_key": place.key,
            "limit": 201,
            "low": None,
            "high": None,
            "queue": None,
        }
        for descending in (True, False):
            _, buffers = cost(filled, f"lists/{name}", params | {"descending": descending})
            assert buffers <= MOST_BUFFERS, name
