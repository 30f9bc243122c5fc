"""What every adapter stands on: a connection, statements by name, and transactions that nest as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.pq import TransactionStatus

from tidemill.store.statements import sql

T = TypeVar("T")


def rounds(items: Sequence[T], job_id: Callable[[T], str]) -> Iterator[Sequence[T]]:
    """The items in their order, in as few parts as leave no job twice in one: nearly always one part.

    Statements that find a row's place in a sorted array need that. Two tokens for one job are odd, but a caller may send them.
    """
    rest = items
    while len({job_id(item) for item in rest}) < len(rest):
        seen: set[str] = set()
        part: list[T] = []
        later: list[T] = []
        for item in rest:
            (later if job_id(item) in seen else part).append(item)
            seen.add(job_id(item))
        yield part
        rest = later
    yield rest


def array(values: Iterable[object]) -> str:
    """An array's literal, of values whose text needs no quotes (ids, numbers). The driver's own arrays cost ten times as much."""
    return "{" + ",".join(map(str, values)) + "}"


def texts(values: Iterable[str | None]) -> str:
    """A text array's literal."""
    return "{" + ",".join(["NULL" if v is None else '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' for v in values]) + "}"


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

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Like `transaction`, but what raises within is undone alone, also inside another one (by a savepoint)."""
        with self._conn.transaction():
            yield

    def fence(self, project_id: str) -> None:
        """From here to the end of the transaction: a role that is fenced sees this project's rows only (migration 0015)."""
        self._conn.execute(sql("system/fence"), {"project_id": project_id})

    def _forget_keys(self, job_ids: list[str]) -> None:
        """After jobs were deleted in this transaction: no key may answer with one of them."""
        if job_ids:
            self._conn.execute(sql("transitions/forget_keys"), {"job_ids": array(job_ids)})

    def _rows(self, name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._conn.execute(sql(name), params).fetchall()

    def _row(self, name: str, params: Mapping[str, Any]) -> tuple[Any, ...] | None:
        return self._conn.execute(sql(name), params).fetchone()
