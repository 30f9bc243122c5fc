"""Settings: read once, all faults at once, no secret shown."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tidemill.config import Settings, SettingsInvalid


def faults(environment: dict[str, str]) -> dict[str, str]:
    with pytest.raises(SettingsInvalid) as caught:
        Settings.read(environment)
    return {str(fault.loc[0]): fault.msg for fault in caught.value.faults}


def test_an_empty_environment_gives_the_defaults() -> None:
    assert Settings.read({}) == Settings()


def test_each_variable_sets_its_field(tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.touch()
    settings = Settings.read(
        {
            "TIDEMILL_STAGE": "prod",
            "TIDEMILL_DATABASE_URL": "postgresql://u:p@db:5432/tidemill",
            "TIDEMILL_DATABASE_AUTH": "IAM",
            "TIDEMILL_DATABASE_CA_FILE": str(certificates),
            "TIDEMILL_URL": "http://127.0.0.1:8710",
            "TIDEMILL_API_KEY": "tm_prod_abc_secret",
            "TIDEMILL_LOG_LEVEL": "debug",
            "TIDEMILL_TICK_BUDGET_MS": " 0 ",
            "PATH": "/bin",
        }
    )
    assert settings == Settings(
        stage="prod",
        database_url="postgresql://u:p@db:5432/tidemill",
        database_auth="iam",
        database_ca_file=certificates,
        url="http://127.0.0.1:8710",
        api_key="tm_prod_abc_secret",
        log_level="debug",
        tick_budget_ms=0,
    )


def test_all_faults_are_reported_together() -> None:
    found = faults({"TIDEMILL_STAGE": "Prod!", "TIDEMILL_TICK_BUDGET_MS": "-1", "TIDEMILL_LOG_LEVEL": "loud", "TIDEMILL_COLOUR": "red"})
    assert set(found) == {"TIDEMILL_STAGE", "TIDEMILL_TICK_BUDGET_MS", "TIDEMILL_LOG_LEVEL", "TIDEMILL_COLOUR"}
    assert found["TIDEMILL_TICK_BUDGET_MS"] == "must be a whole number from 0 to 840,000"
    assert found["TIDEMILL_LOG_LEVEL"] == "must be one of debug, info, warning, error"


@pytest.mark.parametrize("name", ["TIDEMILL_DATABSE_URL", "TIDEMILL_DATABASEURL", "tidemill_database_url"])
def test_a_misspelt_name_is_an_error_with_a_suggestion(name: str) -> None:
    assert faults({name: "postgresql://u@db/x"}) == {name: "is no setting; did you mean TIDEMILL_DATABASE_URL?"}


def test_a_name_unlike_any_setting_lists_them() -> None:
    assert "there are TIDEMILL_API_KEY, " in faults({"TIDEMILL_ZZZZZZZZZZ": "1"})["TIDEMILL_ZZZZZZZZZZ"]


@pytest.mark.parametrize("name", ["TIDEMILL_TEST_DATABASE_URL", "TIDEMILL_PYTHON"])
def test_names_of_tools_are_no_mistake(name: str) -> None:
    assert Settings.read({name: "x"}) == Settings()


def test_an_empty_variable_is_not_set() -> None:
    assert Settings.read({"TIDEMILL_STAGE": "", "TIDEMILL_DATABASE_URL": "  "}) == Settings()


@pytest.mark.parametrize("text", ["1e3", "٣", "1" * 19, "840001"])
def test_a_number_that_is_none_or_out_of_bounds_is_refused(text: str) -> None:
    assert faults({"TIDEMILL_TICK_BUDGET_MS": text}) == {"TIDEMILL_TICK_BUDGET_MS": "must be a whole number from 0 to 840,000"}


def test_secrets_are_shown_neither_in_repr_nor_in_faults() -> None:
    settings = Settings.read({"TIDEMILL_DATABASE_URL": "postgresql://u:hunter2@db/x", "TIDEMILL_API_KEY": "tm_local_a_hunter2"})
    assert "hunter2" not in repr(settings)
    with pytest.raises(SettingsInvalid) as caught:
        Settings.read({"TIDEMILL_DATABASE_URL": "mysql://u:hunter2@db/x", "TIDEMILL_API_KEY": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().stage = "other"


def test_a_missing_database_url_is_named_where_it_is_needed() -> None:
    with pytest.raises(SettingsInvalid, match="TIDEMILL_DATABASE_URL: is not set"):
        Settings().needs_database()
    assert Settings(database_url="postgresql://db/x").needs_database() == "postgresql://db/x"
