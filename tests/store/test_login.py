"""How a process logs in: the signed token is the SDK's, certificates are checked, and what is missing is named."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from psycopg.conninfo import conninfo_to_dict

from tidemill.config import Settings, SettingsInvalid
from tidemill.domain.errors import Unavailable
from tidemill.store import iam_token
from tidemill.store.iam_token import Credentials
from tidemill.store.login import login

HOST = "db.abc.eu-central-1.rds.amazonaws.com"
URL = f"postgresql://tidemill_enqueue@{HOST}:5432/tidemill"
NOW = datetime(2026, 11, 29, 22, 5, 7, tzinfo=UTC)
CA = Path(iam_token.__file__).with_name("rds-ca.pem")


@pytest.fixture
def on_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "REGION": "eu-central-1",
        "ACCESS_KEY_ID": "AKIDEXAMPLE",
        "SECRET_ACCESS_KEY": "wJalr",
        "SESSION_TOKEN": "t/+=",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)


def test_token_is_a_presigned_request_that_names_user_scope_and_time() -> None:
    text = iam_token.token(HOST.upper(), 5432, "tidemill_enqueue", "eu-central-1", Credentials("AKID", "secret", "session/+="), NOW)
    asked = parse_qs(urlsplit("https://" + text).query)
    assert text.startswith(f"{HOST}:5432/?Action=connect&DBUser=tidemill_enqueue&X-Amz-Algorithm=AWS4-HMAC-SHA256&")
    assert asked["X-Amz-Credential"] == ["AKID/20261129/eu-central-1/rds-db/aws4_request"]
    assert asked["X-Amz-Expires"] == ["900"]
    assert asked["X-Amz-Security-Token"] == ["session/+="]
    assert len(asked["X-Amz-Signature"][0]) == 64


def test_another_user_has_another_signature() -> None:
    one, two = (iam_token.token(HOST, 5432, user, "eu-central-1", Credentials("AKID", "secret"), NOW)[-64:] for user in ("a", "b"))
    assert one != two


@pytest.mark.usefixtures("on_lambda")
def test_iam_login_carries_a_fresh_token_and_checks_the_certificate() -> None:
    made = login(Settings(stage="dev", database_url=URL, database_auth="iam", database_ca_file=CA))
    assert callable(made)
    fields = conninfo_to_dict(made())
    assert (fields["sslmode"], fields["sslrootcert"]) == ("verify-full", str(CA))
    assert "X-Amz-Signature=" in str(fields["password"])


@pytest.mark.usefixtures("on_lambda")
def test_iam_login_without_a_ca_file_still_demands_tls() -> None:
    made = login(Settings(stage="dev", database_url=URL, database_auth="iam"))
    assert callable(made)
    assert conninfo_to_dict(made())["sslmode"] == "require"


def test_password_login_is_the_url_as_it_is() -> None:
    assert login(Settings(stage="dev", database_url="postgresql://u:p@h/d")) == "postgresql://u:p@h/d"


@pytest.mark.usefixtures("on_lambda")
def test_iam_login_without_a_user_is_refused_by_name() -> None:
    with pytest.raises(SettingsInvalid, match="TIDEMILL_DATABASE_URL: names no host or no user"):
        login(Settings(stage="dev", database_url="postgresql://host/tidemill", database_auth="iam"))


def test_iam_login_without_a_region_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsInvalid, match="AWS_REGION: is not set"):
        login(Settings(stage="dev", database_url=URL, database_auth="iam"))


def test_no_credentials_at_all_says_what_to_do() -> None:
    with pytest.raises(Unavailable, match="give the function or the task a role"):
        iam_token.credentials({})


def test_secrets_of_a_role_are_not_in_its_repr() -> None:
    assert "secret" not in repr(Credentials("AKID", "secret-one", "secret-two")).replace("secret_key", "")
