"""Jobs that live and die with an application's own transaction, for those that share the database with tidemill."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tidemill.client.fields import chunks, encoded, fits
from tidemill.client.models import BulkItem
from tidemill.domain import keys, limits, text
from tidemill.domain.errors import Fault, IdempotencyConflict, Invalid, QueueFull, TidemillError
from tidemill.store.statements import sql

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

STATEMENT: Final = "jobs/enqueue_in_transaction"
SAVEPOINT: Final = "tidemill_enqueue"
NO_TRANSACTION: Final = "25P01"


class NotInTransaction(TidemillError):
    """The connection has no transaction that the jobs could belong to."""

    code = "not_in_transaction"

    def __init__(self) -> None:
        super().__init__(
            "the connection is in autocommit mode outside of a transaction: open one (conn.transaction()) around your own writes"
        )


def enqueue_in_transaction(
    conn: psycopg.Connection[Any] | Connection | Session, project_id: str | UUID, jobs: Iterable[Mapping[str, Any]]
) -> list[BulkItem]:
    """One item per job, in order: its id and state, and whether another job answers for its key.

    conn: a psycopg 3 connection, or a SQLAlchemy 2 connection or session. The jobs become visible, and claimable, when
    its transaction commits, and never exist if it rolls back. `jobs`: objects as for `POST /v1/jobs`, any number.

    All or nothing: when Invalid, IdempotencyConflict or QueueFull is raised, none of the jobs is stored and **your transaction is as
    it was before the call: still open, and yours to commit or to roll back**. Errors of the driver come through unchanged and end
    the transaction as any failed statement does; under REPEATABLE READ and SERIALIZABLE that may be a serialization failure (another
    transaction has just taken the same key), which asks you to run the whole transaction again, as always there.
    NotInTransaction: nothing would tie the jobs to your writes.

    A key (idempotency or unique) stays locked until your transaction ends: others that enqueue the same key wait for it.
    """
    objects, whole = encoded(jobs)
    parts = [whole] if fits(objects, whole) else [keys.compact_json(part) for part in chunks(objects)]
    if not all(text.storable(part) and "\\u0000" not in part for part in parts):
        _refuse_unstorable(objects)
    if hasattr(conn, "pgconn"):
        run = _in_psycopg
    elif hasattr(conn, "get_bind") or hasattr(conn, "exec_driver_sql"):
        run = _in_sqlalchemy
    else:
        raise TypeError(f"conn must be a psycopg 3 or SQLAlchemy 2 connection or session, not {type(conn).__name__}")
    rows: list[BulkItem] = []
    for row in run(conn, str(project_id), parts):
        rows.append(BulkItem(len(rows), *row[1:4]))
    return rows


def _in_psycopg(conn: Any, project_id: str, parts: list[str]) -> list[tuple[Any, ...]]:
    import psycopg
    from psycopg.rows import tuple_row

    if inspect.iscoroutinefunction(conn.execute):
        raise TypeError("an asynchronous connection: call tidemill.enqueue(project_id, jobs) in SQL yourself, or use a synchronous one")
    if conn.info.pipeline_status:
        raise TypeError("the connection is in pipeline mode: enqueue outside of the pipeline block, in the same transaction")
    if conn.autocommit and conn.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
        raise NotInTransaction
    cursor = psycopg.Cursor(conn, row_factory=tuple_row)  # whatever factories the application has set

    def send(part: str, before: int) -> list[tuple[Any, ...]]:
        return _told(cursor.execute(sql(STATEMENT), {"project_id": project_id, "jobs": part}, prepare=False).fetchall(), before)

    if len(parts) == 1:  # one statement undoes itself; a savepoint would be two round trips more
        return send(parts[0], 0)
    rows: list[tuple[Any, ...]] = []
    cursor.execute(f"savepoint {SAVEPOINT}")
    try:
        for part in parts:
            rows += send(part, len(rows))
    except (psycopg.Error, TidemillError):
        with suppress(psycopg.Error):  # the connection may be the very thing that failed
            cursor.execute(f"rollback to savepoint {SAVEPOINT}; release savepoint {SAVEPOINT}")
        raise
    cursor.execute(f"release savepoint {SAVEPOINT}")
    return rows


def _in_sqlalchemy(conn: Any, project_id: str, parts: list[str]) -> list[tuple[Any, ...]]:
    import sqlalchemy

    connection = conn.connection() if hasattr(conn, "get_bind") else conn
    if inspect.isawaitable(connection) or inspect.iscoroutinefunction(connection.execute):
        raise TypeError("an asynchronous connection: use await conn.run_sync(enqueue_in_transaction, project_id, jobs)")
    statement = sqlalchemy.text(re.sub(r"%\((\w+)\)s", r":\1", sql(STATEMENT).decode()))
    rows: list[tuple[Any, ...]] = []
    try:
        with connection.begin_nested():
            for part in parts:
                told = connection.execute(statement, {"project_id": project_id, "jobs": part})
                rows += _told([tuple(row) for row in told], len(rows))
    except sqlalchemy.exc.DBAPIError as error:
        if NO_TRANSACTION in (getattr(error.orig, "sqlstate", None), getattr(error.orig, "pgcode", None)):
            raise NotInTransaction from error
        raise
    return rows


def _told(rows: list[tuple[Any, ...]], before: int) -> list[tuple[Any, ...]]:
    """The rows, or the error that the only one tells of. `before`: how many jobs the parts before this one had."""
    if not rows or rows[0][4] is None:
        return rows
    code, message = rows[0][4:6]
    fault = _fault(message, before)
    match code:
        case "TM409":
            raise IdempotencyConflict(f"jobs[{fault.loc[1]}].idempotency_key: {fault.msg}")
        case "TM429":
            raise QueueFull(fault.msg, retry_after_secs=limits.FULL_QUEUE_RETRY_SECS)
        case _:
            raise Invalid([fault])


def _fault(message: str, before: int) -> Fault:
    """The place and the text of `jobs[3].queue: …`."""
    found = re.fullmatch(r"jobs\[(\d+)\]\.([^:]*): (.*)", message, re.DOTALL)
    return Fault(("jobs", before + int(found[1]), found[2]), found[3]) if found else Fault(("jobs",), message)


def _refuse_unstorable(objects: list[dict[str, Any]]) -> None:
    """Postgres would refuse NUL and lone surrogates without saying where."""
    path = next(text.unstorable_paths(objects), None)
    if path is not None:
        raise Invalid([Fault(("jobs", *path), "holds a NUL or a lone surrogate, which cannot be stored: remove or replace it")])
