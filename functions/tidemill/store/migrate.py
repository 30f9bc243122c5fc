"""Brings a database to the version of this code. Any number may run at once: each migration is applied once.

Every turn is one transaction under one transaction-scoped advisory lock (so it works through a transaction pooler and a
killed migrator frees it): check, apply one migration, record it, commit. Nothing is half-done but a file that asks for no
transaction, and those bear a repeat.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Any

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable

from tidemill.store.migration_files import Migration, MigrationBlocked, default_folder, pending, read_folder
from tidemill.store.statements import sql

Connection = psycopg.Connection[Any]

LOCK_TIMEOUT_MS = 1_000
"""How long a migration waits for a table lock; for as long may traffic queue up behind it. Then it steps back and retries."""

_RETRY_S = (0.05, 0.15)


class _Turn(Enum):
    """How a turn ended that applied nothing."""

    NOTHING_LEFT = auto()
    PREPARED = auto()
    OTHERS_TURN = auto()


def migrate(target: str | Connection, *, folder: Path | None = None, wait_s: float = 300.0) -> list[Migration]:
    """The migrations that this call applied, in order; [] when another call was first or nothing was left.

    target: a connection URL, or an autocommit connection (stays open; it may be a pooler's).
    folder: where the files are; None = the ones that belong to this code.
    wait_s: longest wait for other migrators and for locks on tables, in all.
    Raises a MigrationError, or psycopg's error of the statement that failed (its migration is rolled back, earlier ones stay).
    """
    migrations = read_folder(folder or default_folder())
    deadline = time.monotonic() + wait_s
    done: list[Migration] = []
    with _connected(target) as conn:
        while pending(migrations, _applied(conn)):
            try:
                turn = _take_turn(conn, migrations)
            except (LockNotAvailable, DeadlockDetected) as error:
                _pause(deadline, wait_s, str(error).splitlines()[0])
                continue
            if turn is _Turn.OTHERS_TURN:
                _pause(deadline, wait_s, "another migrator is at work")
            elif isinstance(turn, Migration):
                done.append(turn)
    return done


def current_version(conn: Connection) -> int:
    """The highest applied version; 0 for a database that was never migrated."""
    return max((version for version, _, _ in _applied(conn)), default=0)


def _take_turn(conn: Connection, migrations: list[Migration]) -> Migration | _Turn:
    with conn.transaction():
        if not _one(conn, "migrations/try_lock"):
            return _Turn.OTHERS_TURN
        conn.execute(sql("migrations/bound_waits"), {"lock_timeout_ms": str(LOCK_TIMEOUT_MS)})
        if not _one(conn, "migrations/table_exists"):
            conn.execute(sql("migrations/create_schema"))
            conn.execute(sql("migrations/create_table"))
            return _Turn.PREPARED  # committed before a file that runs on a connection of its own may need it
        left = pending(migrations, _applied(conn))
        if not left:
            return _Turn.NOTHING_LEFT
        migration = left[0]
        if migration.in_transaction:
            conn.execute(migration.text.encode())
        else:
            _apply_outside(conn, migration)
        conn.execute(
            sql("migrations/record"),
            {"version": migration.version, "name": migration.name, "checksum": migration.checksum},
        )
    return migration


def _apply_outside(conn: Connection, migration: Migration) -> None:
    """Run a file that forbids a transaction on a connection of its own, while `conn` holds the lock."""
    with _connected(conn.info.dsn, password=conn.info.password) as other:
        for statement in migration.statements():
            other.execute(statement.encode())


def _applied(conn: Connection) -> list[tuple[int, str, str]]:
    return conn.execute(sql("migrations/list_applied")).fetchall() if _one(conn, "migrations/table_exists") else []


def _one(conn: Connection, name: str) -> bool:
    row = conn.execute(sql(name)).fetchone()
    return bool(row and row[0])


def _pause(deadline: float, wait_s: float, reason: str) -> None:
    if time.monotonic() > deadline:
        raise MigrationBlocked(f"no migration could be applied within {wait_s:g} s: {reason}; run it again, it continues where it stopped")
    time.sleep(random.uniform(*_RETRY_S))


@contextmanager
def _connected(target: str | Connection, **parameters: str) -> Iterator[Connection]:
    if not isinstance(target, str):
        if not target.autocommit:
            raise ValueError("migrate: the connection must be in autocommit mode; each migration is a transaction of its own")
        yield target
        return
    with psycopg.connect(target, prepare_threshold=None, autocommit=True, connect_timeout=5, **parameters) as conn:  # type: ignore[arg-type]  # libpq's parameters are text, connect's own are named before them
        yield conn
