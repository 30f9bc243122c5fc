"""The migrator's Lambda, as CloudFormation and people call it."""

from dataclasses import dataclass

import psycopg
import pytest

from migrator.handler import handler
from tidemill import passwords
from tidemill.domain.errors import Invalid
from tidemill.store.migration_files import default_folder, read_folder

VERSIONS = [migration.version for migration in read_folder(default_folder())]
NEWEST = VERSIONS[-1]


@dataclass
class Context:
    """The part of a Lambda context that the handler and the logger look at."""

    function_name: str = "migrator"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:000000000000:function:migrator"
    aws_request_id: str = "request"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@pytest.mark.parametrize("request_type", ["Create", "Update", None])
def test_an_empty_database_is_migrated(empty_database: str, monkeypatch: pytest.MonkeyPatch, request_type: str | None) -> None:
    monkeypatch.setenv("TIDEMILL_DATABASE_URL", empty_database)
    monkeypatch.setenv("TIDEMILL_STAGE", "prod")

    first = handler({"RequestType": request_type} if request_type else {}, Context())
    again = handler({"RequestType": "Update", "PhysicalResourceId": first["PhysicalResourceId"]}, Context())

    assert first == {
        "PhysicalResourceId": "tidemill-schema-prod",
        "Data": {"Applied": VERSIONS, "Version": NEWEST},
    }
    assert again == {"PhysicalResourceId": "tidemill-schema-prod", "Data": {"Applied": [], "Version": NEWEST}}


def test_delete_leaves_the_data_alone(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_DATABASE_URL", database)
    assert handler({"RequestType": "Delete", "PhysicalResourceId": "of-old"}, Context()) == {"PhysicalResourceId": "of-old"}
    with psycopg.connect(database) as conn:
        assert conn.execute("select count(*) from tidemill.schema_migrations").fetchone() == (len(VERSIONS),)


def test_delete_needs_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEMILL_DATABASE_URL", raising=False)
    assert handler({"RequestType": "Delete"}, Context()) == {"PhysicalResourceId": "tidemill-schema-local"}


def test_the_first_owner_is_made_by_hand_and_told_once(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_DATABASE_URL", empty_database)
    wanted = {"bootstrap": {"email": "Owner@example.com"}}
    owner = handler(wanted, Context())["Data"]["Owner"]
    again = handler(wanted, Context())["Data"]["Owner"]
    assert (owner["email"], owner["is_new"], again["is_new"]) == ("owner@example.com", True, False)
    assert again["password"] is None
    other = handler({"bootstrap": {"email": "owner@example.com", "reset_password": True}}, Context())["Data"]["Owner"]
    with psycopg.connect(empty_database) as conn:
        (stored,) = conn.execute("select password_hash from tidemill.users").fetchone() or ("",)
        noted = conn.execute("select action from tidemill.audit_log").fetchall()
    assert passwords.matches(stored, other["password"])
    assert not passwords.matches(stored, owner["password"])
    assert noted == [("accounts.reset_password",)]
    with pytest.raises(Invalid):
        handler({"bootstrap": {"email": "nobody"}}, Context())


def test_the_migrator_changes_the_key_that_signs_sessions(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_DATABASE_URL", empty_database)
    first = handler({"rotate_signing_key": {}}, Context())["Data"]["SigningKey"]
    second = handler({"rotate_signing_key": {"leaked": True}}, Context())["Data"]["SigningKey"]
    assert (first["taken_back_secs"], second["taken_back_secs"]) == (3600, 0)
    with psycopg.connect(empty_database) as conn:
        signing = conn.execute("select kid::text from tidemill.signing_keys where purpose = 'session' and retired_at is null").fetchall()
        noted = [row[0] for row in conn.execute("select after ->> 'reason' from tidemill.audit_log order by id")]
    assert (signing, noted) == ([(second["kid"],)], ["by hand", "it has leaked"])
    with pytest.raises(Invalid, match="'passwords' is none of session, cursor"):
        handler({"rotate_signing_key": {"purpose": "passwords"}}, Context())
