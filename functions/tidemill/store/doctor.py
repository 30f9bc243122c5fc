"""What is wrong with a database, as findings: each says what was seen and what to do about it. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import psycopg

from tidemill.domain.cron import zone_data_release
from tidemill.store.drift import drift
from tidemill.store.migrate import current_version
from tidemill.store.migration_files import default_folder, read_folder
from tidemill.store.statements import sql

Level = Literal["ok", "warn", "fail"]
Connection = psycopg.Connection[Any]

OLDEST_SERVER: Final = 16
HELD_SECS: Final = (60, 900)
"""How long a transaction may hold vacuum back before it is told, and before it is called a failure."""
DEAD_ROWS: Final = 10_000
BUDGET: Final = (0.8, 0.95)
LATE_SECS: Final = 150
LOOKED_AT: Final = 1_000
TOLD: Final = 8
"""Differences of the schema that are told one by one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `todo` is empty where nothing is to be done."""

    level: Level
    name: str
    seen: str
    todo: str = ""


def examine(conn: Connection, *, folder: Path | None = None) -> Iterator[Finding]:
    """All findings, in the order in which they are worth reading. `folder`: where the migrations are; None = this code's."""
    where = folder or default_folder()
    yield from _server(conn)
    version = current_version(conn)
    yield _version(version, where)
    if version == 0:
        return
    yield _drift(conn, where)
    looks: tuple[Callable[[Connection], Finding], ...] = (_zones, _scheduler, _horizon, _dead_rows, _lost)
    for look in looks:
        yield look(conn)


def _server(conn: Connection) -> Iterator[Finding]:
    number, version, most, kept, used, ours, is_lossy = _row(conn, "server")
    major = number // 10_000
    old = f"upgrade to {OLDEST_SERVER} or newer" if major < OLDEST_SERVER else ""
    yield Finding("fail" if old else "ok", "server", f"Postgres {version}", old)
    if is_lossy:
        yield Finding(
            "warn",
            "durability",
            "fsync, full_page_writes or synchronous_commit is off",
            "switch them on where jobs must survive a crash of the server",
        )
    share = used / max(1, most - kept)
    level: Level = "fail" if share >= BUDGET[1] else "warn" if share >= BUDGET[0] else "ok"
    todo = "" if level == "ok" else "end idle clients, put a pooler in front, or raise max_connections"
    yield Finding(level, "connections", f"{used} of {most - kept} in use, {ours} of them tidemill's", todo)


def _version(version: int, folder: Path) -> Finding:
    newest = max((migration.version for migration in read_folder(folder)), default=0)
    if version == newest:
        return Finding("ok", "schema version", f"{version}, as this code has it")
    if version < newest:
        return Finding("fail", "schema version", f"{version or 'none'}; this code needs {newest}", "run tidemill migrate")
    return Finding("warn", "schema version", f"{version}; this code knows {newest}", "run the code that belongs to it")


def _drift(conn: Connection, folder: Path) -> Finding:
    file = folder / "schema.sql"
    if not file.is_file():
        return Finding("warn", "schema drift", "schema.sql is not there to compare with", "run the doctor from a whole installation")
    with conn.transaction():
        conn.execute(sql("doctor/bare_path"))
        rows = conn.execute(sql("doctor/objects")).fetchall()
    found = drift(rows, file.read_text(encoding="utf-8"))
    if not found:
        return Finding("ok", "schema drift", "none: the schema is what the migrations make")
    more = f" and {len(found) - TOLD} more" if len(found) > TOLD else ""
    return Finding(
        "fail", "schema drift", "; ".join(found[:TOLD]) + more, "undo what was changed by hand, or bring the migrations up to date"
    )


def _zones(conn: Connection) -> Finding:
    release = zone_data_release()
    (count,) = _row(conn, "zones", release=release, most=LOOKED_AT)
    if count == 0:
        return Finding("ok", "zone data", f"{release}; all schedules are reckoned with it")
    return Finding(
        "warn",
        "zone data",
        f"{release}; {count} schedules are reckoned with another release",
        "let the scheduler make a pass: it reckons them anew",
    )


def _scheduler(conn: Connection) -> Finding:
    schedule, lease = _row(conn, "late")
    late = max(schedule or 0, lease or 0)
    if late < LATE_SECS:
        return Finding("ok", "scheduler", "nothing is overdue")
    what = "a schedule" if (schedule or 0) >= (lease or 0) else "an expired lease"
    return Finding(
        "fail", "scheduler", f"{what} has waited for {_span(late)}", "see that the scheduler runs; tidemill tick runs one pass now"
    )


def _horizon(conn: Connection) -> Finding:
    row = conn.execute(sql("doctor/horizon")).fetchone()
    if row is None:
        return Finding("ok", "vacuum horizon", "no transaction holds vacuum back")
    kind, name, secs, transactions = row
    seen = f"{kind} {name}: {_span(secs) if secs is not None else 'for an unknown time'}, {transactions:,} transactions ago"
    if secs is not None and secs < HELD_SECS[0]:
        return Finding("ok", "vacuum horizon", seen)
    level: Level = "warn" if secs is None or secs < HELD_SECS[1] else "fail"
    return Finding(level, "vacuum horizon", seen, "end it: while it is open no dead row can go, and all queues grow slower")


def _dead_rows(conn: Connection) -> Finding:
    rows = conn.execute(sql("doctor/dead_tuples"), {"least": DEAD_ROWS}).fetchall()
    bad = [(table, dead, live) for table, dead, live, _ in rows if dead > live]
    if not bad:
        return Finding("ok", "dead rows", f"no table has more than {DEAD_ROWS:,} dead rows and more of them than live ones")
    seen = ", ".join(f"{table}: {dead:,} dead, {live:,} live" for table, dead, live in bad)
    return Finding("warn", "dead rows", seen, "see what holds vacuum back; if nothing does, vacuum these tables")


def _lost(conn: Connection) -> Finding:
    rows = conn.execute(sql("doctor/lost"), {"rows": LOOKED_AT}).fetchall()
    if not rows:
        return Finding("ok", "lost jobs", f"none among the youngest and the oldest {LOOKED_AT:,}")
    return Finding(
        "fail", "lost jobs", ", ".join(row[0] for row in rows), "keep a copy of the database and report it: this must never happen"
    )


def _row(conn: Connection, name: str, **params: Any) -> tuple[Any, ...]:
    row = conn.execute(sql(f"doctor/{name}"), params).fetchone()
    assert row is not None
    return tuple(row)


def _span(secs: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if secs >= 2 * size:
            return f"{secs / size:.0f} {unit}"
    return f"{secs:.0f} s"
