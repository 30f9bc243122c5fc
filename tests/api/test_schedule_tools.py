"""What speaks to the schedules' routes: the client, `tidemill schedules`, and workers that declare theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from api.gateway import Gateway, add_key
from harness.carried import Carried
from tidemill.cli import connection
from tidemill.cli.app import run
from tidemill.client import Client
from tidemill.client.source import HttpSource
from tidemill.domain.errors import Forbidden, Invalid, NotFound
from tidemill.domain.jobs import Registration
from tidemill.runner.app import App, AppInvalid
from tidemill.runner.declare import declared
from tidemill.runner.sources.postgres import PostgresSource

DAILY = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Client]:
    with Client("http://api.test", gateway.key, transport=Carried(gateway)) as made:
        yield made


@pytest.fixture
def command(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    monkeypatch.setattr(connection, "client", lambda: Client("http://api.test", gateway.key, transport=Carried(gateway)))
    return gateway


def test_the_client_does_all_that_the_routes_do(client: Client) -> None:
    made = client.put_schedule("team/nightly", job={"job_type": "t"}, **DAILY)
    assert client.get_schedule("team/nightly") == made
    assert client.list_schedules() == [made]
    assert client.preview_schedule("team/nightly", 1)["fires"] == [made["next_run_at"]]
    assert client.edit_schedule("team/nightly", jitter_ms=5)["jitter_ms"] == 5
    assert client.pause_schedule("team/nightly")["is_paused"] is True
    assert client.resume_schedule("team/nightly")["is_paused"] is False
    assert client.trigger_schedule("team/nightly")["job"]["state"] == "queued"
    assert [event["kind"] for event in client.schedule_events("team/nightly")] == ["fired"]
    assert client.preview_timing(every_ms=60_000, n=2, after="2030-01-01T00:00:00Z")["fires"][1] == "2030-01-01T00:02:00Z"
    client.delete_schedule("team/nightly")
    with pytest.raises(NotFound):
        client.get_schedule("team/nightly")


def test_the_command_puts_previews_pauses_triggers_and_tells(command: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedules", "list"]) == 0
    assert run(["schedules", "put", "nightly", "--type", "report.send", "--cron", "0 9 * * *", "--timezone", "Europe/Berlin"]) == 0
    assert run(["schedules", "preview", "nightly", "-n", "2"]) == 0
    assert run(["schedules", "pause", "nightly"]) == 0
    assert run(["schedules", "resume", "nightly"]) == 0
    assert run(["schedules", "trigger", "nightly"]) == 0
    assert run(["schedules", "events", "nightly"]) == 0
    assert run(["schedules", "list"]) == 0
    assert run(["schedules", "show", "nightly"]) == 0
    out = capsys.readouterr().out
    for expected in ("no schedule yet", "nightly  active  next:", "At 09:00 every day", "clocks:", "nightly  paused", "queued", "by hand"):
        assert expected in out


def test_the_command_prints_json_for_programs(command: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedules", "put", "s", "--type", "t", "--every", "90s", "--payload", '{"a": 1}', "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["every_ms"], made["job"]["payload"]) == (90_000, {"a": 1})
    assert run(["schedules", "preview", "--cron", "@daily", "-n", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["fires"]) == 1


def test_the_command_says_what_is_wrong_in_one_line(command: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedules", "put", "s", "--type", "t", "--cron", "0 0 30 2 *"]) == 1
    assert "day-of-month" in capsys.readouterr().err
    assert run(["schedules", "show", "none"]) == 1
    assert run(["schedules", "preview"]) == 2


def declaring(**schedules: dict[str, object]) -> App:
    app = App()

    @app.job("report.send", queue="default", retry=3)
    def send(ctx: object, payload: object) -> None:
        """Sends it."""

    for name, timing in schedules.items():
        app.schedule(name, job_type="report.send", payload={"n": 1}, **timing)
    return app


def test_a_declaration_above_a_job_takes_its_type_and_defaults() -> None:
    app = App()

    @app.schedule("nightly", cron="0 9 * * *", timezone="Europe/Berlin", payload={"a": 1}, overlap="skip")
    @app.job("report.send", retry=3)
    def send(ctx: object, payload: object) -> None:
        """Sends it."""

    spec = declared(app)["nightly"]
    assert spec.job == {"job_type": "report.send", "payload": {"a": 1}, "max_attempts": 3}
    assert (spec.cron, spec.timezone, spec.overlap) == ("0 9 * * *", "Europe/Berlin", "skip")


@pytest.mark.parametrize(
    "timing",
    [
        {"cron": "61 * * * *"},
        {"cron": "@daily", "timezone": "Nowhere"},
        {},
        {"cron": "@daily", "overlap": "no"},
        {"cron": "@daily", "x": 1},
    ],
)
def test_a_declaration_that_cannot_be_is_refused_when_a_worker_starts(timing: dict[str, object]) -> None:
    with pytest.raises(AppInvalid, match="schedule 'nightly'"):
        declared(declaring(nightly=timing))


def test_a_declaration_without_a_job_and_one_taken_twice_are_refused() -> None:
    app = App()

    @app.schedule("lost", cron="@daily")
    def handler(ctx: object, payload: object) -> None:
        """No job."""

    with pytest.raises(AppInvalid, match="job_type"):
        declared(app)
    with pytest.raises(AppInvalid, match="twice"):
        app.schedule("lost", cron="@daily")
    with pytest.raises(AppInvalid, match="characters"):
        app.schedule("not a name", cron="@daily")


@pytest.mark.parametrize("kind", ["http", "postgres"])
def test_workers_bring_their_schedules_and_pause_those_that_are_gone(gateway: Gateway, client: Client, kind: str) -> None:
    source = (
        HttpSource("http://api.test", gateway.key, transport=Carried(gateway))
        if kind == "http"
        else PostgresSource(gateway.dsn, gateway.project_id)
    )
    try:
        source.register(Registration("w", ["default"]))
        both = declared(declaring(a=DAILY, b={"every_ms": 60_000, "starts_at": None}))
        assert source.declare_schedules("shop.jobs:app", both) == {"created": 2, "changed": 0, "paused": 0}
        assert source.declare_schedules("shop.jobs:app", both) == {"created": 0, "changed": 0, "paused": 0}
        assert source.declare_schedules("shop.jobs:app", declared(declaring(b={"every_ms": 90_000}))) == {
            "created": 0,
            "changed": 1,
            "paused": 1,
        }
        first, second = client.list_schedules()
        assert (first["is_paused"], first["note"], first["declared_by"]) == (True, "no longer declared by shop.jobs:app", "shop.jobs:app")
        assert (second["is_paused"], second["every_ms"], second["job"]["max_attempts"]) == (False, 90_000, 3)
        with pytest.raises(Invalid, match="does not exist"):
            source.declare_schedules("shop.jobs:app", declared(_elsewhere()))
        assert len(client.list_schedules()) == 2
    finally:
        source.close()


def _elsewhere() -> App:
    app = declaring()
    app.schedule("c", cron="@daily", job_type="report.send", job={"queue": "nowhere"})
    return app


def test_a_key_that_may_only_work_changes_no_schedule(gateway: Gateway, client: Client) -> None:
    key = add_key(gateway.dsn, gateway.project_id, "work")
    source = HttpSource("http://api.test", key, transport=Carried(gateway))
    with pytest.raises(Forbidden):
        source.declare_schedules("app", declared(declaring(a=DAILY)))
    source.close()
    assert client.list_schedules() == []
