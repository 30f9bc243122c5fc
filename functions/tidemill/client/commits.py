"""Jobs that are sent when a transaction has committed, and forgotten when it rolls back.

Between the commit and the sending a process can die, so this is at most once. Who shares the database with tidemill uses
`enqueue_in_transaction` and loses nothing; this is for queues in another database, and for jobs whose key would stay
locked too long within the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Unpack
from uuid import UUID
from weakref import WeakKeyDictionary

from tidemill.client.fields import JobFields, job_object, job_objects
from tidemill.client.outbox import JobObject, Outbox, Send
from tidemill.client.transaction import enqueue_in_transaction

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.orm import Session, scoped_session

    from tidemill.client.api import Client

KEY: Final = "tidemill_after_commit"


class Later:
    """Collects jobs for the end of a transaction."""

    def __init__(self, outbox: Outbox, send: Send) -> None:
        self._outbox, self._send = outbox, send

    def enqueue(self, job_type: str, payload: Any = None, **fields: Unpack[JobFields]) -> None:
        """Sends this job after the commit. Invalid now if it is no JSON; what the API refuses comes as NotSent."""
        self.enqueue_many([job_object(job_type, payload, fields)])

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Like `enqueue`, for job objects."""
        self._outbox.add(self._send, job_objects(jobs))


_OPEN: Final[WeakKeyDictionary[Any, list[Outbox]]] = WeakKeyDictionary()


@contextmanager
def after_commit(conn: psycopg.Connection[Any], to: Client | str | UUID) -> Iterator[Later]:
    """A transaction on a psycopg 3 connection whose jobs are sent once it has committed.

        with after_commit(conn, client) as later:
            conn.execute("update orders …")
            later.enqueue("order.ship", {"order": 7})

    to: a Client, or a project id for a transaction of its own on the same connection. Within another such block it is a
    savepoint: its jobs wait for the outermost commit, and go with it if it rolls back. NotSent comes after the commit.
    RuntimeError if the connection is in a transaction of somebody else's, whose end could not be seen.
    """
    stack = _OPEN.setdefault(conn, [])
    if not stack and conn.info.transaction_status.name != "IDLE":
        raise RuntimeError("the connection is in a transaction already, whose commit cannot be seen from here: commit or roll back first")
    outbox = Outbox()
    stack.append(outbox)
    is_through = False  # psycopg.Rollback ends the block without an error
    try:
        with conn.transaction():
            yield Later(outbox, _sender(to, lambda jobs: _in_psycopg(conn, str(to), jobs)))
            is_through = True
    finally:
        stack.pop()
    if is_through and stack:
        stack[-1].join(outbox)
    elif is_through:
        outbox.flush()


def enqueue_after_commit(session: Session | scoped_session[Session], to: Client | str | UUID, jobs: Iterable[Mapping[str, Any]]) -> None:
    """Sends the jobs once the session's transaction has committed; forgets them when it rolls back or is closed.

    to: a Client, or a project id for a transaction of its own on the session's engine. Called within `begin_nested()`
    the jobs belong to that savepoint: rolled back with it, and else sent at the commit of the outermost transaction.
    Invalid now if a job is no JSON. NotSent comes out of `commit()` when the transaction is committed and over.
    """
    if hasattr(session, "sync_session"):
        raise TypeError("an AsyncSession: call this on its .sync_session, within run_sync")
    if callable(session):  # a scoped_session
        session = session()
    given = job_objects(jobs)
    if not session.in_transaction():
        session.begin()
    bind = None if hasattr(to, "enqueue_many") else session.get_bind()
    waiting = session.info.get(KEY) or _listening(session)
    waiting.add(_sender(to, lambda objects: _in_engine(bind, str(to), objects)), given)


class _Waiting:
    """A session's jobs by the transaction or savepoint that they were given in."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_transaction: WeakKeyDictionary[Any, Outbox] = WeakKeyDictionary()
        self._committed: list[Outbox] = []

    def add(self, send: Send, jobs: list[JobObject]) -> None:
        self._of(self._current()).add(send, jobs)

    def after_commit(self, _: Session) -> None:
        """SQLAlchemy calls this for savepoints that are released, too."""
        transaction = self._current()
        outbox = self._by_transaction.pop(transaction, None)
        if outbox is None:
            return
        if transaction.parent is None:
            self._committed.append(outbox)
        else:
            outer = transaction.parent
            while outer.parent is not None and not outer.nested:
                outer = outer.parent
            self._of(outer).join(outbox)

    def after_transaction_end(self, _: Session, transaction: Any) -> None:
        """Not before here is the session free again: an error of ours must not leave it half closed."""
        self._by_transaction.pop(transaction, None)
        if transaction.parent is None:
            committed, self._committed = self._committed, []
            for outbox in committed:
                outbox.flush()

    def _current(self) -> Any:
        return self._session.get_nested_transaction() or self._session.get_transaction()

    def _of(self, transaction: Any) -> Outbox:
        return self._by_transaction.setdefault(transaction, Outbox())


def _listening(session: Session) -> _Waiting:
    from sqlalchemy import event

    waiting = _Waiting(session)
    event.listen(session, "after_commit", waiting.after_commit)
    event.listen(session, "after_transaction_end", waiting.after_transaction_end)
    session.info[KEY] = waiting
    return waiting


def _sender(to: Any, in_own_transaction: Send) -> Send:
    return to.enqueue_many if hasattr(to, "enqueue_many") else in_own_transaction


def _in_psycopg(conn: Any, project_id: str, jobs: list[JobObject]) -> None:
    with conn.transaction():
        enqueue_in_transaction(conn, project_id, jobs)


def _in_engine(bind: Any, project_id: str, jobs: list[JobObject]) -> None:
    with bind.engine.begin() as conn:
        enqueue_in_transaction(conn, project_id, jobs)
