"""The command line itself: what it loads, how fast it is, what it says when it cannot."""

import json
import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from harness.clock import allowed
from harness.dev import COMMAND, cli, environment
from tidemill import credentials
from tidemill.cli.app import COMMANDS, run
from tidemill.cli.enqueue import duration_ms, json_value
from tidemill.cli.output import age
from tidemill.credentials import Credentials

KEY = "tm_local_" + "0" * 32 + "_" + "A" * 43
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def dead_url() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_help_lists_every_command_and_loads_none_of_them() -> None:
    program = "import sys; from tidemill.cli import main; code = main(['--help']); print(sorted(sys.modules)); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True)
    text, _, modules = done.stdout.rpartition("[")
    assert all(f"  {name} " in text for name in COMMANDS)
    assert not {"typer", "rich", "psycopg", "httpx", "uvicorn", "pydantic"} & set(json.loads("[" + modules.replace("'", '"')))


def test_help_is_quick() -> None:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([*COMMAND, "--help"], env=environment(), capture_output=True, check=True)
        took.append(time.perf_counter() - began)
    print(f"tidemill --help: {min(took) * 1000:.0f} ms")
    assert min(took) < allowed(1)  # 0.1 s on an idle machine


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_every_command_explains_itself(name: str) -> None:
    done = cli(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"tidemill {name}" in done.stdout


@pytest.mark.parametrize("word", ["-h", "--help", "help"])
def test_help_has_three_names(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word]) == 0
    assert "Exit codes" in capsys.readouterr().out


def test_a_misspelt_command_is_one_line_with_a_suggestion() -> None:
    done = cli("enqeue")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tidemill: there is no command 'enqeue'; did you mean enqueue?\n"


def test_no_api_to_talk_to_is_one_line_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(credentials, "default_folder", lambda: tmp_path)
    assert run(["jobs", "list"]) == 2
    assert (
        capsys.readouterr().err == "tidemill: no API to talk to: set TIDEMILL_URL and TIDEMILL_API_KEY, or start one with `tidemill dev`\n"
    )


def test_an_api_that_is_away_is_one_line_and_exit_3(dead_url: str) -> None:
    done = cli("jobs", "list", TIDEMILL_URL=dead_url, TIDEMILL_API_KEY=KEY)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "cannot be reached" in done.stderr


def test_several_ids_and_an_api_that_is_away_fail_once(dead_url: str) -> None:
    done = cli("jobs", "cancel", "a", "b", "c", TIDEMILL_URL=dead_url, TIDEMILL_API_KEY=KEY)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


def test_a_database_that_is_away_is_one_line_and_exit_3(dead_url: str) -> None:
    for command in ("migrate", "tick"):
        done = cli(command, "--dsn", dead_url.replace("http", "postgresql://u").replace("://u://", "://u@") + "/d")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr


def test_a_wrong_setting_is_one_line_and_exit_2() -> None:
    done = cli("jobs", "list", TIDEMILL_URI="http://x")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "did you mean TIDEMILL_URL?" in done.stderr


def test_the_local_key_goes_to_the_local_api_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemill.cli import connection

    ours = Credentials(api_key=KEY, admin_email="e", admin_password="p", url="http://127.0.0.1:8710", dsn="postgresql://x@h/d")
    credentials.write(tmp_path, ours)
    monkeypatch.setattr(credentials, "default_folder", lambda: tmp_path)
    for name in [name for name in os.environ if name.startswith("TIDEMILL_") and not name.startswith("TIDEMILL_TEST_")]:
        monkeypatch.delenv(name)
    with connection.client() as client:
        assert "127.0.0.1:8710" in repr(client)
    assert connection.database_url(None) == "postgresql://x@h/d"
    monkeypatch.setenv("TIDEMILL_URL", "https://elsewhere.example.com")
    with pytest.raises(connection.NowhereToGo, match="set TIDEMILL_API_KEY"):
        connection.client()


def test_a_broken_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m tidemill.cli version | true", shell=True, env=environment(), capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("90s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000)])
def test_durations_have_a_unit(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "-5s", "1.5h", "5 s", "5w", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="no duration"):
        duration_ms(text)


def test_a_payload_that_is_not_json_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="is not JSON"):
        json_value("{a: 1}")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-5, "5s"), (-65, "1m 5s"), (-3_600, "1h"), (-93_600, "1d 2h"), (30, "in 30s"), (7_140, "in 1h 59m"), (-90_061, "1d 1h")],
)
def test_ages_are_read_at_a_glance(seconds: int, text: str) -> None:
    assert age(NOW + timedelta(seconds=seconds), NOW) == text


def test_no_time_is_a_dash() -> None:
    assert age(None) == "-"
