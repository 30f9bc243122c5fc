"""A database with a crowd in it: many jobs in other states beside the few that a test moves, and what a statement touched of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from psycopg import Connection

from tidemill.store.statements import sql

PROJECT = "01900000-0000-7000-8000-000000000002"
QUEUE = "01900000-0000-7000-8000-000000000003"
WORKER = "01900000-0000-7000-8000-000000000004"
BIG = ("jobs", "job_queue_entries", "job_leases", "job_executions", "unique_holds")
FILL = """
with given as materialized (
    select tidemill.uuid7(tidemill.uuid7_ticks(statement_timestamp() - interval '2 days') + i * 4096) as id, i,
           statement_timestamp() + %(since)s::interval + i * %(step)s::interval as at
    from generate_series(1, %(rows)s::bigint) as i
), born as (
    insert into tidemill.jobs (id, project_id, queue_id, job_type, payload, phase, run_at, created_at, updated_at)
    select g.id, %(project)s, %(queue)s, 'crowd.' || g.i %% 7, '{}', 'moving', g.at, g.at, g.at from given g where g.i <= %(jobs)s
)
"""
ENTRIES = "insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id) select %(queue)s, 0, g.at, g.id from given g"
LEASES = """
insert into tidemill.job_leases (job_id, lease_token, queue_id, worker_id, attempt, fence, priority, traits, run_at, claimed_at, started_at,
    lease_expires_at, lease_ms)
select g.id, g.id, %(queue)s, %(worker)s, 1, 1, 0, 0, g.at, g.at, g.at, g.at + interval '60 seconds', 60000 from given g
"""
FINISHED = """
insert into tidemill.job_executions (job_id, fence, id, queue_id, attempt_number, status, queued_at, started_at, finished_at, duration_ms)
select g.id, 1, g.id, %(queue)s, 1, 'completed', g.at, g.at, g.at, 0 from given g
"""
HOLDS = """
insert into tidemill.unique_holds (project_id, kind, key, job_id)
select %(project)s, 'unique', sha256(uuid_send(g.id)), g.id from given g
"""


def needs_plans_of_17(conn: Connection) -> None:
    """Skips a test whose bound on rows read holds from Postgres 17 on (docs/limits.md). What it does is right on 16, too."""
    if conn.info.server_version < 170_000:
        pytest.skip("Postgres 16 reads more here: its index scans over a list of keys give no order, and it walks what is in order")


def found(conn: Connection) -> None:
    """A project with one queue."""
    conn.execute("insert into tidemill.organizations (id, name, slug) values (%s, 'o', 'o')", [PROJECT])
    conn.execute("insert into tidemill.projects (id, org_id, name) values (%s, %s, 'p')", [PROJECT, PROJECT])
    conn.execute("insert into tidemill.queues (id, project_id, name, quarantine_after) values (%s, %s, 'default', 1000)", [QUEUE, PROJECT])
    conn.execute("insert into tidemill.queue_levels (queue_id, priority) values (%s, 0)", [QUEUE])


def keep_statistics(conn: Connection) -> None:
    """Nobody but the test analyses."""
    for table in BIG:
        conn.execute(f"alter table tidemill.{table} set (autovacuum_enabled = false)")


def fill(conn: Connection, what: str, rows: int, since: str, *, step: str = "1 ms", jobs: int | None = None) -> None:
    """`rows` times what one of the statements above makes, at `since` from now on; `jobs`: only so many of them get their job."""
    params = {"rows": rows, "since": since, "step": step, "jobs": rows if jobs is None else jobs}
    conn.execute(FILL + what, {**params, "project": PROJECT, "queue": QUEUE, "worker": WORKER})


@dataclass(frozen=True)
class Touched:
    """What a transaction has read and written of the big tables so far."""

    seq_rows: int
    index_rows: int
    written: int


def touched(conn: Connection) -> Touched:
    """Within a transaction, of that transaction alone; functions and all."""
    row = conn.execute(
        "select sum(seq_tup_read), sum(coalesce(idx_tup_fetch, 0)), sum(n_tup_ins + n_tup_upd + n_tup_del)"
        " from pg_stat_xact_user_tables where schemaname = 'tidemill' and relname = any(%s)",
        [list(BIG)],
    ).fetchone()
    assert row is not None
    return Touched(*(int(value) for value in row))


class Plan:
    """A plan that was run, as EXPLAIN tells it."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self.nodes = list(_nodes(tree["Plan"]))
        self.blocks = tree["Plan"]["Shared Hit Blocks"] + tree["Plan"]["Shared Read Blocks"]

    @property
    def scans(self) -> list[str]:
        """What walks a big table from end to end: a sequential scan, or an index without a condition on it."""
        walks = [n for n in self.nodes if n.get("Relation Name") in BIG and "Scan" in n["Node Type"] and n["Actual Loops"]]
        return [
            f"{n['Node Type']} on {n['Relation Name']}"
            for n in walks
            if n["Node Type"] == "Seq Scan" or (n["Node Type"].startswith("Index") and "Index Cond" not in n)
        ]

    @property
    def indexes(self) -> set[str]:
        """The indexes of big tables that it used."""
        return {n["Index Name"] for n in self.nodes if n.get("Index Name") and n["Actual Loops"] and _is_big(n["Index Name"])}

    @property
    def most_rows(self) -> float:
        """The most rows that one step saw, those thrown away included."""
        counts = (n["Actual Rows"] * n["Actual Loops"] + n.get("Rows Removed by Filter", 0) * n["Actual Loops"]
                  + n.get("Rows Removed by Join Filter", 0) * n["Actual Loops"] for n in self.nodes)  # fmt: skip
        return max(counts)


def prepare(conn: Connection, name: str) -> list[str]:
    """Prepares the statement under its name, as a worker's connection does; the order of its parameters."""
    order: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        if match[1] not in order:
            order.append(match[1])
        return f"${order.index(match[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", numbered, sql(name).decode()).replace("%%", "%")
    conn.execute(f'prepare "{name}" as {text}'.replace("%", "%%"), [])
    return order


def run_prepared(conn: Connection, name: str, order: Sequence[str], params: Mapping[str, Any]) -> Plan:
    """The plan of a prepared statement, run within a transaction of the caller's."""
    literals = ", ".join(_literal(params[key]) for key in order)
    return _plan(conn, f'execute "{name}"({literals})')


def explain(conn: Connection, name: str, params: Mapping[str, Any]) -> Plan:
    """The plan of a statement as it is sent without being prepared."""
    text = re.sub(r"%\((\w+)\)s", lambda match: _literal(params[match[1]]), sql(name).decode()).replace("%%", "%")
    return _plan(conn, text)


def _plan(conn: Connection, text: str) -> Plan:
    row = conn.execute(f"explain (analyze, buffers, format json, timing off) {text}".encode()).fetchone()
    assert row is not None
    return Plan(row[0][0])


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _is_big(index: str) -> bool:
    return index.startswith(BIG) or index.startswith("job_")


def _literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool() | int():
            return str(value).lower()
        case list():
            return "'{" + ",".join("null" if item is None else f'"{item}"' for item in value) + "}'"
        case datetime():
            return f"'{value.isoformat()}'"
        case dict():
            return "'" + json.dumps(value).replace("'", "''") + "'"
    return "'" + str(value).replace("'", "''") + "'"
