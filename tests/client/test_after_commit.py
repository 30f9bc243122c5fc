"""Jobs that are sent once a transaction has committed: SQLAlchemy sessions and psycopg."""

from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tidemill.client import NotSent, after_commit, enqueue_after_commit
from tidemill.domain.errors import Invalid


class Recorder:
    """Stands in for a Client: remembers what it was given, and in which order."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.sent: list[str] = []
        self.fails = fails

    def enqueue_many(self, jobs: list[dict[str, Any]]) -> None:
        if self.fails:
            raise self.fails
        self.sent += [job["job_type"] for job in jobs]


@pytest.fixture
def client() -> Any:
    return Recorder()


def later(session: Session, client: Any, *names: str) -> None:
    enqueue_after_commit(session, client, [{"job_type": name} for name in names])


def jobs_in(conn: psycopg.Connection) -> list[str]:
    return [row[0] for row in conn.execute("select job_type from tidemill.jobs order by id")]


def test_session_sends_at_the_commit_and_once(session: Session, client: Any) -> None:
    session.execute(sqlalchemy.text("select 1"))
    later(session, client, "a", "b")
    later(session, client, "c")
    assert client.sent == []
    session.commit()
    assert client.sent == ["a", "b", "c"]
    session.execute(sqlalchemy.text("select 1"))
    session.commit()
    assert client.sent == ["a", "b", "c"]


def test_session_sends_nothing_after_a_rollback(session: Session, client: Any) -> None:
    later(session, client, "a")
    session.rollback()
    session.commit()
    assert client.sent == []


def test_closed_session_sends_nothing(session: Session, client: Any) -> None:
    later(session, client, "a")
    session.close()
    session.commit()
    assert client.sent == []


def test_failed_commit_sends_nothing(session: Session, client: Any, conn: psycopg.Connection) -> None:
    conn.execute("create table public.t (id int unique deferrable initially deferred)")
    session.execute(sqlalchemy.text("insert into public.t values (1), (1)"))
    later(session, client, "a")
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        session.commit()
    session.rollback()
    assert client.sent == []


def test_savepoint_rolled_back_takes_its_jobs_along(session: Session, client: Any) -> None:
    later(session, client, "outer")
    with session.begin_nested() as savepoint:
        later(session, client, "inner")
        savepoint.rollback()
    session.commit()
    assert client.sent == ["outer"]


def test_released_savepoint_waits_for_the_outermost_commit(session: Session, client: Any) -> None:
    with session.begin_nested():
        with session.begin_nested():
            later(session, client, "innermost")
        later(session, client, "inner")
        assert client.sent == []
    assert client.sent == []
    session.commit()
    assert client.sent == ["innermost", "inner"]


def test_released_savepoint_goes_with_the_outer_rollback(session: Session, client: Any) -> None:
    with session.begin_nested():
        later(session, client, "inner")
    session.rollback()
    session.commit()
    assert client.sent == []


def test_savepoint_that_fails_loses_only_its_own(session: Session, client: Any) -> None:
    later(session, client, "outer")
    with pytest.raises(sqlalchemy.exc.ProgrammingError):
        with session.begin_nested():
            later(session, client, "inner")
            session.execute(sqlalchemy.text("select * from nowhere"))
    later(session, client, "after")
    session.commit()
    assert client.sent == ["outer", "after"]


def test_begin_block_and_scoped_session_work_too(engine: sqlalchemy.Engine, client: Any) -> None:
    registry = scoped_session(sessionmaker(engine))
    with registry.begin():
        later(registry(), client, "a")
        enqueue_after_commit(registry, client, [{"job_type": "b"}])
    assert client.sent == ["a", "b"]
    registry.remove()


def test_session_is_free_after_jobs_could_not_be_sent(session: Session, conn: psycopg.Connection) -> None:
    conn.execute("create table public.t (id int)")
    session.execute(sqlalchemy.text("insert into public.t values (1)"))
    later(session, Recorder(OSError("down")), "a")
    with pytest.raises(NotSent, match=r"is committed.*1 of its jobs.*down") as caught:
        session.commit()
    assert caught.value.jobs == [{"job_type": "a"}]
    assert not session.in_transaction()
    assert session.scalar(sqlalchemy.text("select count(*) from public.t")) == 1
    session.commit()


def test_session_sends_into_the_shared_database_by_project(session: Session, project: str, conn: psycopg.Connection) -> None:
    later(session, project, "a")
    assert jobs_in(conn) == []
    session.commit()
    assert jobs_in(conn) == ["a"]


def test_fault_shows_before_the_commit(session: Session, client: Any) -> None:
    with pytest.raises(Invalid, match=r"jobs\[0\]\.payload"):
        enqueue_after_commit(session, client, [{"job_type": "x", "payload": object()}])


def test_psycopg_block_sends_after_its_commit(database: str, client: Any, project: str, conn: psycopg.Connection) -> None:
    with psycopg.connect(database, autocommit=True) as caller:
        with after_commit(caller, client) as outer, after_commit(caller, project) as inner:
            inner.enqueue("by.project", queue="default")
            outer.enqueue("by.client", {"order": 7})
            assert client.sent == []
        assert client.sent == ["by.client"]
        assert jobs_in(conn) == ["by.project"]


def test_psycopg_block_that_fails_sends_nothing(caller: psycopg.Connection, client: Any) -> None:
    with pytest.raises(ZeroDivisionError), after_commit(caller, client) as block:
        block.enqueue("a")
        raise ZeroDivisionError
    with after_commit(caller, client) as block:
        block.enqueue("b")
        raise psycopg.Rollback
    with after_commit(caller, client) as block:
        with after_commit(caller, client) as inner:
            inner.enqueue("c")
            raise psycopg.Rollback
        block.enqueue("d")
    assert client.sent == ["d"]


def test_psycopg_commit_that_fails_sends_nothing(caller: psycopg.Connection, client: Any, conn: psycopg.Connection) -> None:
    conn.execute("create table public.t (id int unique deferrable initially deferred)")
    with pytest.raises(psycopg.errors.UniqueViolation), after_commit(caller, client) as block:
        caller.execute("insert into public.t values (1), (1)")
        block.enqueue("a")
    assert client.sent == []


def test_psycopg_block_refuses_a_transaction_whose_end_it_cannot_see(caller: psycopg.Connection, client: Any) -> None:
    caller.execute("select 1")
    with pytest.raises(RuntimeError, match="commit or roll back first"), after_commit(caller, client):
        pass
