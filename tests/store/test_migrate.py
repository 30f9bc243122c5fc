"""The migrator's own rules: order, checksums, what a failed migration leaves, how long it waits."""

from pathlib import Path

import psycopg
import pytest

from tidemill.local.schema_dump import dump
from tidemill.store.migrate import current_version, migrate
from tidemill.store.migration_files import (
    MigrationBlocked,
    MigrationEdited,
    MigrationFolderInvalid,
    MigrationOutOfOrder,
    default_folder,
    read_folder,
)

SPLIT = """-- tidemill: no-transaction
select 'a;b', "c;d" from x; -- one; comment
create function f() returns int language sql as $body$ select 1; $body$;
/* ; */ select 2
"""


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name.removeprefix('m')}.sql").write_text(text)
    return folder


def test_migrations_together_equal_schema_sql(database: str) -> None:
    with psycopg.connect(database) as conn:
        if conn.info.server_version // 10_000 != 18:
            pytest.skip(f"schema.sql is a dump of PostgreSQL 18, this server is {conn.info.server_version // 10_000}")
    assert dump(database) == (default_folder() / "schema.sql").read_text(encoding="utf-8"), "run scripts/schema"


def test_current_version_of_a_new_database_is_zero(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as conn:
        assert current_version(conn) == 0


def test_a_second_run_applies_nothing(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        assert migrate(conn) == []
        assert current_version(conn) == read_folder(default_folder())[-1].version


def test_an_edited_applied_migration_is_named(empty_database: str, tmp_path: Path) -> None:
    migrate(empty_database, folder=write(tmp_path, m0001_create_one="create table tidemill.one (id int)"))
    write(tmp_path, m0001_create_one="create table tidemill.one (id bigint)")
    with pytest.raises(MigrationEdited, match=r"0001_create_one\.sql was changed"):
        migrate(empty_database, folder=tmp_path)


def test_windows_line_ends_do_not_change_the_checksum(tmp_path: Path) -> None:
    unix = write(tmp_path, m0001_create_one="select 1;\nselect 2;\n")
    before = read_folder(unix)[0].checksum
    (tmp_path / "0001_create_one.sql").write_bytes(b"select 1;\r\nselect 2;\r\n")
    assert read_folder(tmp_path)[0].checksum == before


def test_a_migration_below_the_applied_version_is_refused(empty_database: str, tmp_path: Path) -> None:
    migrate(empty_database, folder=write(tmp_path, m0002_create_two="create table tidemill.two (id int)"))
    write(tmp_path, m0001_create_one="create table tidemill.one (id int)")
    with pytest.raises(MigrationOutOfOrder, match="above 2"):
        migrate(empty_database, folder=tmp_path)


def test_a_database_of_newer_code_is_left_alone(empty_database: str, tmp_path: Path) -> None:
    folder = write(tmp_path, m0001_create_one="create table tidemill.one (id int)", m0002_create_two="create table tidemill.two (id int)")
    migrate(empty_database, folder=folder)
    (folder / "0002_create_two.sql").unlink()
    assert migrate(empty_database, folder=folder) == []


def test_a_failing_migration_leaves_the_earlier_ones_and_nothing_of_its_own(empty_database: str, tmp_path: Path) -> None:
    broken = "create table tidemill.two (id int); select 1 / 0"
    folder = write(tmp_path, m0001_create_one="create table tidemill.one (id int)", m0002_create_two=broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty_database, folder=folder)
    with psycopg.connect(empty_database, autocommit=True) as conn:
        assert current_version(conn) == 1
        assert conn.execute("select to_regclass('tidemill.two')").fetchone() == (None,)


def test_the_wait_for_another_migrator_has_an_end(empty_database: str, tmp_path: Path) -> None:
    folder = write(tmp_path, m0001_create_one="create table tidemill.one (id int)")
    with psycopg.connect(empty_database) as other:
        other.execute("select pg_advisory_xact_lock(1953064037)")
        with pytest.raises(MigrationBlocked, match=r"within 0\.2 s: another migrator"):
            migrate(empty_database, folder=folder, wait_s=0.2)
    assert len(migrate(empty_database, folder=folder)) == 1


def test_a_connection_in_a_transaction_is_refused(empty_database: str) -> None:
    with psycopg.connect(empty_database) as conn, pytest.raises(ValueError, match="autocommit"):
        migrate(conn)


@pytest.mark.parametrize("name", ["0001_Create_one", "1_create_one", "0001_create", "0001-create-one"])
def test_a_name_that_does_not_fit_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.sql").write_text("select 1")
    with pytest.raises(MigrationFolderInvalid, match="NNNN_verb_noun"):
        read_folder(tmp_path)


def test_a_version_taken_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MigrationFolderInvalid, match="version 1 is taken by 0001_create_one"):
        read_folder(write(tmp_path, m0001_create_one="select 1", m0001_create_two="select 1"))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MigrationFolderInvalid, match="no migration"):
        read_folder(tmp_path)


def test_statements_are_split_outside_quotes_and_comments(tmp_path: Path) -> None:
    migration = read_folder(write(tmp_path, m0001_split_statements=SPLIT))[0]
    assert not migration.in_transaction
    assert migration.statements() == [
        "select 'a;b', \"c;d\" from x",
        "create function f() returns int language sql as $body$ select 1; $body$",
        "select 2",
    ]
