"""What every adapter stands on: a connection, statements by name, and transactions that nest as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from psycopg import Connection
from psycopg.pq import TransactionStatus

from tidemill.store.statements import sql


class Adapter:
    """Runs named statements on one connection."""

    def __init__(self, conn: Connection[Any]) -> None:
        self._conn = conn

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements within are one transaction; inside another it joins that one."""
        if self._conn.info.transaction_status is not TransactionStatus.IDLE:
            yield
            return
        with self._conn.transaction():
            yield

    def _forget_keys(self, job_ids: list[str]) -> None:
        """After jobs were deleted in this transaction: no key may answer with one of them."""
        if job_ids:
            self._conn.execute(sql("transitions/forget_keys"), {"job_ids": job_ids})

    def _rows(self, name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._conn.execute(sql(name), params).fetchall()

    def _row(self, name: str, params: Mapping[str, Any]) -> tuple[Any, ...] | None:
        return self._conn.execute(sql(name), params).fetchone()
