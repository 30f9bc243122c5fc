"""A connection that only looks, and opens another one when the server was restarted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import psycopg

from tidemill.domain.errors import Unavailable
from tidemill.store.database import connect
from tidemill.store.demo import DemoReads

T = TypeVar("T")


class Eyes:
    """`ask` raises Unavailable while the server is away."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._conn: psycopg.Connection[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._drop()

    def ask(self, look: Callable[[DemoReads], T]) -> T:
        """What `look` sees."""
        try:
            if self._conn is None:
                self._conn = connect(self._dsn)
            return look(DemoReads(self._conn))
        except psycopg.Error as error:
            self._drop()
            raise Unavailable("the database is being restarted") from error

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()
