"""The pooler of the harness does what one does: transactions wander between sessions, and session state is lost or noted."""

import psycopg
import pytest

from harness.pooler import Pooler


def backend(conn: psycopg.Connection) -> int:
    row = conn.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def test_a_transaction_stays_on_one_session_and_the_next_takes_another(pooler: Pooler) -> None:
    with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=None) as conn:
        with conn.transaction():
            inside = {backend(conn) for _ in range(5)}
        outside = {backend(conn) for _ in range(6)}
    assert len(inside) == 1
    assert len(outside) == 3


def test_a_setting_of_the_session_is_gone_for_the_next_statement(pooler: Pooler) -> None:
    with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=None) as conn:
        conn.execute("set application_name = 'mine'")
        row = conn.execute("show application_name").fetchone()
    assert row != ("mine",)


def test_a_prepared_statement_is_noted_and_unknown_to_the_next_session(pooler: Pooler) -> None:
    with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=0) as conn:
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            conn.execute("select %s::int", [1], prepare=True)
    assert pooler.violations


def test_a_client_that_leaves_in_a_transaction_leaves_nothing_behind(pooler: Pooler) -> None:
    leaver = psycopg.connect(pooler.dsn, prepare_threshold=None)
    leaver.execute("create table left_behind (id int)")
    leaver.close()
    with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=None) as conn:
        for _ in range(3):
            assert conn.execute("select to_regclass('left_behind')").fetchone() == (None,)


def test_copy_passes_through(pooler: Pooler) -> None:
    with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=None) as conn:
        conn.execute("create table numbers (id int)")
        with conn.cursor().copy("copy numbers from stdin") as copy:
            for number in range(20_000):
                copy.write_row([number])
        assert conn.execute("select count(*) from numbers").fetchone() == (20_000,)
