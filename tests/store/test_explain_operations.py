"""A batch of a bulk operation costs its own rows, whatever the statistics say, and a dry run over many reads one table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from harness import crowd
from harness.databases import Databases
from harness.dead import DEAD
from tidemill.store.database import connect

pytestmark = pytest.mark.timeout(300)
COUNT = 6_000
BATCH = 500
ANYTHING: dict[str, Any] = dict.fromkeys(
    ("queue", "job_type", "job_type_prefix", "error_class", "tags", "any_tags", "priority", "created_after", "created_before")
)


@pytest.fixture(scope="module", params=["empty statistics", "full statistics"])
def crowded(request: pytest.FixtureRequest, databases: Databases) -> Iterator[str]:
    """Dead jobs beside as many queued, running and finished ones."""
    dsn = databases.clone()
    with psycopg.connect(dsn, autocommit=True) as conn:
        crowd.keep_statistics(conn)
        crowd.found(conn)
        conn.execute("vacuum analyze")
        conn.execute(DEAD, {"n": COUNT, "p": crowd.PROJECT, "q": "default"})
        for what in (crowd.ENTRIES, crowd.LEASES, crowd.FINISHED):
            crowd.fill(conn, what, COUNT, "-1 hour")
        if request.param == "full statistics":
            conn.execute("vacuum analyze")
    yield dsn
    databases.drop(dsn)


def ids(conn: psycopg.Connection[Any], table: str) -> list[str]:
    column = "id" if table == "jobs where phase = 'dead_letter'" else "job_id"
    return [row[0] for row in conn.execute(f"select {column}::text from tidemill.{table} order by 1 limit {BATCH}".encode())]


@pytest.mark.parametrize(
    ("name", "table", "values"),
    [
        ("retry_many", "jobs where phase = 'dead_letter'", {"by": None}),
        ("discard_dead_many", "jobs where phase = 'dead_letter'", {"by": None, "operation_id": crowd.WORKER}),
        (
            "cancel_entries_many",
            "job_queue_entries",
            {"operation_id": crowd.WORKER, "wide": True, "due_since": False, "reason": "cancelled"},
        ),
        ("due_many", "job_queue_entries", {}),
        ("request_cancel_many", "job_leases", {"operation_id": crowd.WORKER, "wide": True, "begun_since": False}),
    ],
)
def test_a_batch_costs_its_own_rows(crowded: str, name: str, table: str, values: dict[str, Any]) -> None:
    with connect(crowded) as conn, conn.transaction(force_rollback=True):
        row = conn.execute("select now()").fetchone()
        params = {"project_id": crowd.PROJECT, "job_ids": ids(conn, table), "since": row and row[0], "now": None, **values}
        plan = crowd.explain(conn, f"transitions/{name}", params)
    assert plan.most_rows <= 5 * COUNT  # comparing every pair of a batch would be 250,000
    assert plan.blocks <= 60 * BATCH


def test_an_undo_reads_its_own_blocks(crowded: str) -> None:
    with connect(crowded) as conn, conn.transaction(force_rollback=True):
        row = conn.execute("select now()").fetchone()
        given = ids(conn, "job_queue_entries")
        how = {"project_id": crowd.PROJECT, "operation_id": crowd.WORKER, "job_ids": given, "now": None}
        crowd.explain(
            conn,
            "transitions/cancel_entries_many",
            {**how, "since": row and row[0], "wide": True, "due_since": False, "reason": "cancelled"},
        )
        plan = crowd.explain(conn, "transitions/restore_many", how)
    assert plan.blocks <= 60 * BATCH


def test_the_undo_of_a_discard_reads_its_batch_and_not_all_that_is_left(crowded: str) -> None:
    with connect(crowded) as conn, conn.transaction(force_rollback=True):
        crowd.needs_plans_of_17(conn)
        how = {"project_id": crowd.PROJECT, "operation_id": crowd.WORKER, "now": None}
        dead = [row[0] for row in conn.execute("select id::text from tidemill.jobs where phase = 'dead_letter' order by id")]
        row = conn.execute("select now()").fetchone()
        crowd.explain(conn, "transitions/discard_dead_many", {**how, "job_ids": dead, "since": row and row[0], "by": None})
        walked = crowd.explain(conn, "operations/affected", {"id": crowd.WORKER, "after": dead[10], "limit": BATCH})
        opened = crowd.explain(conn, "transitions/reopen_dead_many", {**how, "job_ids": dead[:BATCH]})
    assert walked.most_rows <= 2 * BATCH
    assert opened.most_rows <= COUNT
    assert opened.blocks <= 60 * BATCH


def test_the_walk_over_a_phase_looks_at_what_it_was_asked_to(crowded: str) -> None:
    with connect(crowded) as conn:
        params = {**ANYTHING, "project_id": crowd.PROJECT, "phase": "dead_letter", "descending": False, "after": None, "limit": BATCH}
        plan = crowd.explain(conn, "operations/walk_phase", {**params, "job_type": "mail.1"})
    assert plan.scans == []
    assert plan.most_rows <= 2 * BATCH
    assert plan.blocks <= 6 * BATCH


def test_a_count_reads_the_jobs_and_nothing_else(crowded: str) -> None:
    with connect(crowded) as conn:
        params = {**ANYTHING, "project_id": crowd.PROJECT, "phase": "dead_letter", "after": None, "limit": COUNT // 2}
        plan = crowd.explain(conn, "operations/count_phase", params)
    assert plan.indexes <= {"jobs_by_phase", "jobs_by_project", "jobs_pkey"}
    assert plan.most_rows <= COUNT


def test_removing_a_queue_looks_at_its_own_jobs(crowded: str) -> None:
    with connect(crowded) as conn:
        plan = crowd.explain(conn, "queues/jobs", {"queue_id": crowd.QUEUE, "limit": BATCH})
    assert plan.most_rows <= COUNT + 4 * BATCH
