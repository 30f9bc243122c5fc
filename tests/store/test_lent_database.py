"""What one test leaves in a lent database, the next one does not find."""

from collections.abc import Callable

import psycopg
import pytest

from harness import lent
from harness.databases import Databases
from harness.mill import Mill, opened

LEAVE: dict[str, Callable[[psycopg.Connection], object]] = {
    "a table": lambda c: c.execute("create table left_behind (id int)"),
    "a column": lambda c: c.execute("alter table tidemill.jobs add column left_behind int"),
    "a right": lambda c: c.execute("grant select on tidemill.jobs to public"),
    "a function": lambda c: c.execute("create or replace function tidemill.left_behind() returns int language sql return 1"),
    "a setting": lambda c: c.execute(f"alter database {c.info.dbname} set timezone = 'Asia/Kolkata'".encode()),
    "statistics": lambda c: c.execute("analyze tidemill.projects"),
    "a page count": lambda c: c.execute("vacuum tidemill.schema_migrations"),
}


def worked(mill: Mill) -> None:
    mill.new(unique={"key": "K"})
    mill.complete(mill.claim_one())
    mill.conn.execute("update tidemill.signing_keys set created_at = created_at - interval '1 day'")


def test_rows_are_gone_and_what_a_new_database_has_is_there(databases: Databases) -> None:
    dsn = databases.lend()
    with psycopg.connect(dsn) as conn:
        kept = conn.execute("select * from tidemill.signing_keys order by 1").fetchall()
    with opened(dsn) as mill:
        worked(mill)
    databases.take_back(dsn)
    again = databases.lend()
    assert again == dsn
    with psycopg.connect(again) as conn:
        tables = conn.execute("select relname from pg_class where relnamespace = 'tidemill'::regnamespace and relkind = 'r'").fetchall()
        filled = {name for (name,) in tables if conn.execute(f"select from tidemill.{name} limit 1".encode()).fetchone() is not None}
        assert filled == {"schema_migrations", "signing_keys", "counter_state"}
        assert conn.execute("select * from tidemill.signing_keys order by 1").fetchall() == kept
        assert conn.execute("select nextval('tidemill.job_logs_id_seq')").fetchone() == (1,)
    databases.take_back(again)


@pytest.mark.parametrize("what", LEAVE)
def test_a_database_that_is_not_as_it_was_is_not_lent_again(databases: Databases, what: str) -> None:
    dsn = databases.lend()
    with psycopg.connect(dsn, autocommit=True) as conn:
        LEAVE[what](conn)
    databases.take_back(dsn)
    other = databases.lend()
    databases.take_back(other)
    assert other != dsn


def test_a_database_where_somebody_is_still_connected_is_not_lent_again(databases: Databases) -> None:
    dsn = databases.lend()
    with psycopg.connect(dsn) as stayed:
        databases.take_back(dsn)
        other = databases.lend()
        databases.take_back(other)
        assert other != dsn
        with pytest.raises(psycopg.Error):
            stayed.execute("select 1")


def test_a_warm_connection_has_nothing_of_its_last_user(database: str) -> None:
    conn = lent.take(database)
    backend = conn.info.backend_pid
    seen = (
        "select current_user, current_setting('timezone'), current_setting('search_path'), (select count(*) from pg_listening_channels())"
    )
    fresh = conn.execute(seen).fetchone()
    conn.execute("set timezone = 'Asia/Kolkata'; set role tidemill_admin; listen news; create temp table mine (id int)")
    conn.execute("select pg_advisory_lock(1)")
    lent.put(database, conn)
    with lent.connected(database) as again:
        assert again.info.backend_pid == backend
        assert again.execute(seen).fetchone() == fresh
        assert again.execute("select to_regclass('pg_temp.mine')").fetchone() == (None,)
        assert again.execute("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()").fetchone() == (0,)


def test_a_connection_in_a_transaction_is_not_kept(database: str) -> None:
    conn = lent.take(database)
    conn.execute("begin")
    lent.put(database, conn)
    assert conn.closed


def test_a_warm_connection_that_was_ended_meanwhile_is_passed_over(database: str) -> None:
    conn = lent.take(database)
    lent.put(database, conn)
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 60000)", [conn.info.backend_pid])
    with lent.connected(database) as again:
        assert again.execute("select 1").fetchone() == (1,)
