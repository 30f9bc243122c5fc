"""What a first start puts into the database and the data folder, and what a second one finds."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from tidemill import credentials, passwords
from tidemill.credentials import Credentials
from tidemill.domain import api_keys
from tidemill.domain.api_keys import ApiKey
from tidemill.local import founding
from tidemill.store.bootstrap import Founding, bootstrap


def found(folder: Path, dsn: str) -> Credentials:
    return founding.found(folder, dsn, founding.prepare(folder), "http://127.0.0.1:1")


def test_a_second_start_finds_the_same_key_password_and_ids(empty_database: str, tmp_path: Path) -> None:
    assert found(tmp_path, empty_database) == found(tmp_path, empty_database)


def test_there_is_one_of_each_afterwards(empty_database: str, tmp_path: Path) -> None:
    for _ in range(2):
        found(tmp_path, empty_database)
    with psycopg.connect(empty_database) as conn:
        for table in ("organizations", "users", "organization_members", "projects", "queues", "api_keys"):
            assert conn.execute(f"select count(*) from tidemill.{table}").fetchone() == (1,), table
        assert conn.execute("select name from tidemill.queues").fetchone() == ("default",)
        assert conn.execute("select role::text from tidemill.organization_members").fetchone() == ("owner",)


def test_the_database_keeps_hashes_only(empty_database: str, tmp_path: Path) -> None:
    ours = found(tmp_path, empty_database)
    with psycopg.connect(empty_database) as conn:
        stored = conn.execute("select password_hash from tidemill.users").fetchone()
        key = conn.execute("select id, key_hash, row_to_json(k)::text from tidemill.api_keys k").fetchone()
    parsed = api_keys.parse(ours.api_key)
    assert stored is not None
    assert key is not None
    assert parsed is not None
    assert stored[0].startswith("$argon2id$")
    assert passwords.matches(stored[0], ours.admin_password)
    assert not passwords.matches(stored[0], ours.admin_password + "x")
    assert (str(key[0]), bytes(key[1])) == (parsed.key_id, parsed.digest)
    assert ours.api_key.split("_", 3)[3] not in key[2]  # the secret may hold more of them


def test_only_the_owner_may_read_the_file(empty_database: str, tmp_path: Path) -> None:
    found(tmp_path, empty_database)
    assert stat.S_IMODE((tmp_path / credentials.FILE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [credentials.FILE_NAME]


def test_a_lost_file_gives_a_new_key_and_a_password_that_works(empty_database: str, tmp_path: Path) -> None:
    first = found(tmp_path, empty_database)
    (tmp_path / credentials.FILE_NAME).unlink()
    second = found(tmp_path, empty_database)
    assert (second.project_id, second.api_key == first.api_key) == (first.project_id, False)
    with psycopg.connect(empty_database) as conn:
        stored = conn.execute("select password_hash from tidemill.users").fetchone()
    assert stored is not None
    assert passwords.matches(stored[0], second.admin_password)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"api_key": "none", "admin_email": "e", "admin_password": "p"})])
def test_a_damaged_file_is_replaced(empty_database: str, tmp_path: Path, text: str) -> None:
    (tmp_path / credentials.FILE_NAME).write_text(text)
    ours = found(tmp_path, empty_database)
    assert credentials.read(tmp_path) == ours
    assert api_keys.parse(ours.api_key) is not None


def test_a_lost_database_gets_the_key_of_the_folder(empty_database: str, database: str, tmp_path: Path) -> None:
    assert found(tmp_path, empty_database).api_key == found(tmp_path, database).api_key


def test_credentials_do_not_print_their_secrets() -> None:
    ours = Credentials(api_key="tm_local_secret", admin_email="e", admin_password="secret-password", dsn="postgresql://secret@h/d")
    assert "secret" not in repr(ours)
    key = api_keys.compose("local", UUID(int=5), "A" * 43)
    assert "AAAA" not in repr(key)


def test_founders_at_once_end_with_one_of_each(database: str) -> None:
    def one(_: int) -> object:
        with psycopg.connect(database, autocommit=True) as conn:
            return bootstrap(conn, Founding(email="a@example.com", password_hash="$argon2id$x"))

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(one, range(16)))) == 1


def test_a_repeat_leaves_a_changed_password_alone(conn: Connection) -> None:
    bootstrap(conn, Founding(email="a@example.com", password_hash="first"))
    bootstrap(conn, Founding(email="A@example.com", password_hash="second"))
    assert conn.execute("select email, password_hash from tidemill.users").fetchall() == [("a@example.com", "first")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tm_local",
        "tm_Local_" + "0" * 32 + "_" + "A" * 43,
        "tm_local_" + "0" * 32 + "_" + "A" * 42,
        "tm_local_" + "0" * 31 + "_" + "A" * 43,
    ],
)
def test_what_has_not_the_form_of_a_key_is_none(text: str) -> None:
    assert api_keys.parse(text) is None


def test_a_secret_with_underscores_stays_whole() -> None:
    text = "tm_local_" + "0" * 32 + "_" + "_-" * 21 + "_"
    assert api_keys.parse(text) == ApiKey("local", "00000000-0000-0000-0000-000000000000", text)
