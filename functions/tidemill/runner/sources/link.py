"""A direct connection of the runner: kept open, replaced when broken, with prepared statements and binary results."""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.pq import Format

from tidemill.store import faults
from tidemill.store.database import CONNECT, TRIES
from tidemill.store.postgres import PostgresStore
from tidemill.store.sleepers import Sleepers

T = TypeVar("T")

PLANS = (
    "select set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false),"
    " set_config('jit', 'off', false)"
)
"""Statements are planned once and kept, also where a queue was empty then and is not now: so never by reading a whole table,
which looked cheap at the time. Planning anew takes longer than a small batch does.
"""


class BinaryCursor(psycopg.Cursor[Any]):
    """Results in binary, which costs less to read."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.format = Format.BINARY


class RunnerStore(PostgresStore, Sleepers):
    """All of the store and the doorbell."""


class Link:
    """One connection for one kind of traffic. Calls from several threads take turns.

    on_connect: prepares a fresh connection (session state is ours to have here).
    """

    def __init__(self, dsn: Callable[[], str], on_connect: Callable[[psycopg.Connection[Any]], None] | None = None) -> None:
        self._dsn = dsn
        self._on_connect = on_connect
        self._lock = threading.Lock()
        self._closed = False
        self.conn: psycopg.Connection[Any] | None = None
        self._store: RunnerStore | None = None

    def run(self, work: Callable[[RunnerStore], T]) -> T:
        """What `work` returns; Unavailable if the connection breaks, after which the next call opens another."""
        with self._lock:
            for last in range(TRIES - 1, -1, -1):
                try:
                    return work(self._ready())
                except psycopg.Error as error:
                    if faults.breaks_connection(error) or self.conn is None or self.conn.closed:
                        self.drop()
                    elif last and faults.is_repeatable(error):
                        continue
                    raise faults.translated(error) from error
        raise AssertionError("unreachable")

    def await_word(self, timeout_s: float) -> bool:
        """True once a notification has come for this connection, which is taken; False if none did, or the connection is not there.

        Waits without keeping calls away: what comes for a call under way is left to it.
        """
        conn = self.conn
        if conn is None or conn.closed:
            return False
        try:
            readable, _, _ = select.select([conn.fileno()], [], [], timeout_s)
            if not readable:
                return False
            with self._lock:  # whatever call was under way is over
                if self.conn is not conn or conn.closed:
                    return False
                conn.pgconn.consume_input()
                found = False
                while conn.pgconn.notifies() is not None:
                    found = True
                return found
        except (OSError, ValueError, psycopg.Error):
            return False  # gone: the next call opens another

    def drop(self) -> None:
        """Forgets the connection."""
        conn, self.conn, self._store = self.conn, None, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()

    def close(self) -> None:
        """Closes it for good; a call under way fails."""
        self._closed = True
        self.drop()

    def _ready(self) -> RunnerStore:
        if self.conn is None or self._store is None or self.conn.closed:
            if self._closed:
                raise psycopg.OperationalError("the source is closed")
            settings = {**CONNECT, "prepare_threshold": 0, "application_name": "tidemill-worker"}
            self.conn = psycopg.connect(self._dsn(), **settings)
            self.conn.cursor_factory = BinaryCursor
            self.conn.execute(PLANS)
            self._store = RunnerStore(self.conn)
            if self._on_connect is not None:
                self._on_connect(self.conn)
        return self._store
