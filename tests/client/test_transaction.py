"""Jobs within an application's own transaction, on psycopg and SQLAlchemy."""

import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from tidemill.client import NotInTransaction, enqueue_in_transaction
from tidemill.domain.errors import IdempotencyConflict, Invalid
from tidemill.domain.jobs import ClaimedJob

Claimable = Callable[[], list[ClaimedJob]]
JOB = {"job_type": "order.ship", "payload": {"order": 7}}


@pytest.fixture(params=["psycopg", "sqlalchemy connection", "sqlalchemy session"])
def own(request: pytest.FixtureRequest, caller: psycopg.Connection, engine: sqlalchemy.Engine, session: Session) -> Any:
    """The application's connection, in the three forms that are taken."""
    if request.param == "psycopg":
        yield caller
    elif request.param == "sqlalchemy connection":
        with engine.connect() as connection:
            yield connection
    else:
        yield session


def run(own: Any, statement: str) -> None:
    own.execute(statement if isinstance(own, psycopg.Connection) else sqlalchemy.text(statement))


def count(conn: psycopg.Connection) -> int:
    row = conn.execute("select count(*) from tidemill.jobs").fetchone()
    assert row is not None
    return int(row[0])


def test_job_is_claimable_at_the_commit_and_not_before(own: Any, project: str, claimable: Claimable) -> None:
    [item] = enqueue_in_transaction(own, project, [JOB])
    assert (item.index, item.state, item.deduplicated) == (0, "queued", False)
    assert claimable() == []
    own.commit()
    [job] = claimable()
    assert (job.job_id, job.job_type, job.payload) == (item.job_id, "order.ship", '{"order": 7}')


def test_rollback_leaves_no_job(own: Any, project: str, conn: psycopg.Connection) -> None:
    enqueue_in_transaction(own, project, [JOB])
    own.rollback()
    assert count(conn) == 0


def test_jobs_and_writes_of_the_caller_are_one(own: Any, project: str, conn: psycopg.Connection) -> None:
    conn.execute("create table public.orders (id int)")
    run(own, "insert into public.orders values (7)")
    enqueue_in_transaction(own, project, [JOB])
    own.commit()
    assert (count(conn), conn.execute("select id from public.orders").fetchall()) == (1, [(7,)])


def test_refused_job_leaves_the_transaction_as_it_was(own: Any, project: str, conn: psycopg.Connection) -> None:
    conn.execute("create table public.orders (id int)")
    run(own, "insert into public.orders values (7)")
    with pytest.raises(Invalid) as caught:
        enqueue_in_transaction(own, project, [JOB, {"job_type": "x", "queue": "nowhere"}])
    assert caught.value.faults[0].loc == ("jobs", 1, "queue")
    assert "does not exist" in caught.value.faults[0].msg
    [item] = enqueue_in_transaction(own, project, [JOB])
    own.commit()
    assert conn.execute("select id::text from tidemill.jobs").fetchall() == [(item.job_id,)]
    assert conn.execute("select id from public.orders").fetchall() == [(7,)]


def test_key_of_another_request_is_a_conflict_and_the_transaction_goes_on(own: Any, project: str, conn: psycopg.Connection) -> None:
    enqueue_in_transaction(own, project, [JOB | {"idempotency_key": "k"}])
    with pytest.raises(IdempotencyConflict, match=r"jobs\[0\]\.idempotency_key: .*another request"):
        enqueue_in_transaction(own, project, [{"job_type": "other", "idempotency_key": "k"}])
    own.commit()
    assert count(conn) == 1


def test_same_key_answers_with_the_first_job(own: Any, project: str) -> None:
    [first] = enqueue_in_transaction(own, project, [JOB | {"idempotency_key": "k"}])
    [second] = enqueue_in_transaction(own, project, [JOB | {"idempotency_key": "k"}])
    assert (second.job_id, second.deduplicated) == (first.job_id, True)


@pytest.mark.parametrize(
    ("job", "loc", "words"),
    [
        ({"job_type": "x", "priority": 99_999}, ("jobs", 0, "priority"), "-32768 to 32767"),
        ({"job_type": "x", "colour": "red"}, ("jobs", 0, "colour"), "no such field"),
        ({"job_type": "x", "run_at": "2031-01-01T00:00:00+99:00"}, ("jobs", 0, "run_at"), "RFC 3339"),
        ({"job_type": "x", "payload": {"a": ["\x00"]}}, ("jobs", 0, "payload", "a", 0), "NUL"),
        ({"job_type": "x", "payload": float("nan")}, ("jobs", 0, "payload"), "no JSON value"),
    ],
)
def test_fault_names_job_field_and_bound(own: Any, project: str, job: dict[str, Any], loc: tuple[Any, ...], words: str) -> None:
    with pytest.raises(Invalid) as caught:
        enqueue_in_transaction(own, project, [job])
    assert caught.value.faults[0].loc == loc
    assert words in caught.value.faults[0].msg


def test_more_than_one_call_s_worth_is_still_all_or_nothing(own: Any, project: str, conn: psycopg.Connection) -> None:
    with pytest.raises(Invalid) as caught:
        enqueue_in_transaction(own, project, [JOB] * 1_500 + [{"job_type": "x", "queue": "nowhere"}])
    assert caught.value.faults[0].loc == ("jobs", 1_500, "queue")
    items = enqueue_in_transaction(own, project, [JOB] * 1_500)
    own.commit()
    assert [item.index for item in items] == list(range(1_500))
    assert count(conn) == 1_500


def test_numbers_arrive_as_they_were_given(own: Any, project: str, conn: psycopg.Connection) -> None:
    enqueue_in_transaction(own, project, [{"job_type": "x", "payload": [10**40, 1.0, 1e23, 0.1]}])
    own.commit()
    row = conn.execute("select payload::text from tidemill.jobs").fetchone()
    assert row == ("[10000000000000000000000000000000000000000, 1.0, 100000000000000000000000.0, 0.1]",)


def test_savepoint_of_the_caller_takes_its_jobs_along(caller: psycopg.Connection, project: str, conn: psycopg.Connection) -> None:
    with caller.transaction():
        [kept] = enqueue_in_transaction(caller, project, [JOB])
        with caller.transaction():
            enqueue_in_transaction(caller, project, [JOB])
            raise psycopg.Rollback
    assert conn.execute("select id::text from tidemill.jobs").fetchall() == [(kept.job_id,)]


def test_savepoint_of_a_session_takes_its_jobs_along(session: Session, project: str, conn: psycopg.Connection) -> None:
    [kept] = enqueue_in_transaction(session, project, [JOB])
    savepoint = session.begin_nested()
    enqueue_in_transaction(session, project, [JOB])
    savepoint.rollback()
    session.commit()
    assert conn.execute("select id::text from tidemill.jobs").fetchall() == [(kept.job_id,)]


def test_connection_outside_of_a_transaction_is_refused(conn: psycopg.Connection, project: str) -> None:
    with pytest.raises(NotInTransaction, match="open one"):
        enqueue_in_transaction(conn, project, [JOB])
    assert count(conn) == 0
    with conn.transaction():
        enqueue_in_transaction(conn, uuid.UUID(project), [JOB])
    assert count(conn) == 1


def test_autocommit_engine_is_refused(engine: sqlalchemy.Engine, project: str, conn: psycopg.Connection) -> None:
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        with pytest.raises(NotInTransaction):
            enqueue_in_transaction(connection, project, [JOB])
    assert count(conn) == 0


def test_factories_of_the_application_do_not_matter(database: str, project: str) -> None:
    with psycopg.connect(database, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as caller:
        [item] = enqueue_in_transaction(caller, project, [JOB])
        assert item.state == "queued"


def test_pipeline_and_strangers_are_refused(caller: psycopg.Connection, project: str) -> None:
    with caller.pipeline(), pytest.raises(TypeError, match="pipeline"):
        enqueue_in_transaction(caller, project, [JOB])
    with pytest.raises(TypeError, match="not str"):
        enqueue_in_transaction("dsn", project, [JOB])


def test_repeatable_read_caller_can_enqueue(caller: psycopg.Connection, project: str, claimable: Claimable) -> None:
    caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    caller.execute("select 1 from tidemill.jobs")
    items = enqueue_in_transaction(caller, project, [JOB, JOB | {"idempotency_key": "k"}, JOB | {"unique": {}}, JOB | {"priority": 9}])
    caller.commit()
    assert {job.job_id for job in claimable()} == {item.job_id for item in items}


def test_repeatable_read_caller_learns_of_a_key_taken_meanwhile(caller: psycopg.Connection, project: str, conn: psycopg.Connection) -> None:
    caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    caller.execute("select 1 from tidemill.jobs")
    keyed = [JOB | {"idempotency_key": "k"}]
    with conn.transaction():
        [first] = enqueue_in_transaction(conn, project, keyed)
    with pytest.raises(psycopg.errors.SerializationFailure):
        enqueue_in_transaction(caller, project, keyed)
    caller.rollback()
    [again] = enqueue_in_transaction(caller, project, keyed)
    assert (again.job_id, again.deduplicated) == (first.job_id, True)


def test_repeatable_read_caller_is_not_failed_by_a_worker_that_woke_meanwhile(
    caller: psycopg.Connection, project: str, conn: psycopg.Connection
) -> None:
    caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    queue = conn.execute("select id from tidemill.queues where project_id = %s and name = 'default'", [project]).fetchone()
    assert queue is not None
    conn.execute("insert into tidemill.queue_sleepers (queue_id, worker_id) values (%s, gen_random_uuid())", [queue[0]])
    caller.execute("select 1 from tidemill.jobs")
    conn.execute("delete from tidemill.queue_sleepers")
    [item] = enqueue_in_transaction(caller, project, [JOB])
    caller.commit()
    assert item.state == "queued"
