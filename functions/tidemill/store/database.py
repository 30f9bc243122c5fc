"""One connection per process, opened when first needed, replaced when broken, without session state (so that RDS Proxy never pins)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from tidemill.store import faults

if TYPE_CHECKING:
    from tidemill.store.postgres import PostgresStore

T = TypeVar("T")

PROBE_AFTER_SECS: Final = 1.0
TRIES: Final = 3
CONNECT: Final[dict[str, Any]] = {
    "autocommit": True,
    "prepare_threshold": None,  # with prepared statements a rollback sends DEALLOCATE ALL, which pins
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "tidemill",
}


def connect(dsn: str) -> psycopg.Connection[Any]:
    """A connection as everything outside the runner opens it; psycopg.Error if the server does not let it in."""
    return psycopg.connect(dsn, **CONNECT)


class Database:
    """Runs work on a store. Not thread-safe: one per process, as in a Lambda environment.

    dsn: a connection string, or a function that returns a fresh one (for tokens that expire).
    make: a smaller store than the whole one, for a process that must start fast and needs little.
    """

    def __init__(self, dsn: str | Callable[[], str], *, make: Callable[[psycopg.Connection[Any]], Any] | None = None) -> None:
        self._dsn = dsn
        self._make = make
        self._conn: psycopg.Connection[Any] | None = None
        self._store: PostgresStore | None = None
        self._used_at = 0.0

    def run(self, work: Callable[[PostgresStore], T]) -> T:
        """What `work` returns. It must leave nothing behind when it raises, so that it may run again after a deadlock.

        A connection that idled is probed first, so a frozen or failed-over one is replaced before anything is sent; one
        that breaks while `work` runs is discarded and raises Unavailable, because a write may or may not have happened.
        """
        for last in range(TRIES - 1, -1, -1):
            store = self._ready()
            try:
                return work(store)
            except psycopg.Error as error:
                if faults.breaks_connection(error):
                    self.close()
                elif last and faults.is_repeatable(error):
                    continue
                raise faults.translated(error) from error
            finally:
                self._used_at = time.monotonic()
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Drops the connection; the next `run` opens another."""
        conn, self._conn, self._store = self._conn, None, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()

    def _ready(self) -> PostgresStore:
        if self._conn is not None and (self._conn.closed or self._conn.broken or not self._answers(self._conn)):
            self.close()
        if self._conn is None or self._store is None:
            try:
                dsn = self._dsn() if callable(self._dsn) else self._dsn
                self._conn = connect(dsn)
            except psycopg.Error as error:
                raise faults.translated(error) from error
            self._store = (self._make or _whole)(self._conn)
        return self._store

    def _answers(self, conn: psycopg.Connection[Any]) -> bool:
        if time.monotonic() - self._used_at < PROBE_AFTER_SECS:
            return True
        try:
            row = conn.execute("select not pg_is_in_recovery() and current_setting('transaction_read_only') = 'off'").fetchone()
        except psycopg.Error:
            return False
        return bool(row and row[0])


def _whole(conn: psycopg.Connection[Any]) -> PostgresStore:
    from tidemill.store.postgres import PostgresStore

    return PostgresStore(conn)
