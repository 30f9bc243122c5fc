"""A worker brings its app's schedules along when it starts."""

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tidemill.domain.errors import Forbidden, Unavailable
from tidemill.domain.jobs import Registered, Registration
from tidemill.domain.schedule import Spec
from tidemill.runner.app import App, AppInvalid
from tidemill.runner.log import Log
from tidemill.runner.options import WorkerOptions
from tidemill.runner.worker import Worker


class Elsewhere:
    """A source that only knows registrations and schedules; `faults` are raised one by one."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.declared: list[tuple[str, list[str]]] = []

    def register(self, registration: Registration) -> Registered:
        return Registered("00000000-0000-7000-8000-000000000000", 1_000, 60_000)

    def declare_schedules(self, declared_by: str, specs: Mapping[str, Spec]) -> Mapping[str, int]:
        if self.faults:
            raise self.faults.pop(0)
        self.declared.append((declared_by, list(specs)))
        return {"created": len(specs), "changed": 0, "paused": 0}

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **more: None


def started(app: App, source: Elsewhere) -> list[dict[str, Any]]:
    """Registers a worker; what it logged."""
    said = io.StringIO()
    worker = Worker(app, source, WorkerOptions(app_path="shop.jobs:app"), Log("info", said))
    worker._register()
    return [json.loads(line) for line in said.getvalue().splitlines()]


def with_one() -> App:
    app = App()
    app.schedule("nightly", cron="@daily", job_type="t")
    return app


def test_schedules_are_declared_under_the_apps_path() -> None:
    source = Elsewhere()
    started(with_one(), source)
    assert source.declared == [("shop.jobs:app", ["nightly"])]


def test_an_app_without_schedules_says_so_and_former_ones_are_paused() -> None:
    source = Elsewhere()
    started(App(), source)
    assert source.declared == [("shop.jobs:app", [])]


def test_an_outage_while_declaring_is_waited_out() -> None:
    source = Elsewhere(Unavailable("not now"))
    started(with_one(), source)
    assert len(source.declared) == 1


def test_a_key_that_may_not_declare_does_not_keep_the_worker_from_its_jobs() -> None:
    source = Elsewhere(Forbidden("no"))
    logged = started(with_one(), source)
    assert source.declared == []
    assert any("schedules_not_declared" in json.dumps(line) for line in logged)


def test_an_expression_that_cannot_be_stops_the_start() -> None:
    app = App()
    app.schedule("nightly", cron="61 * * * *", job_type="t")
    with pytest.raises(AppInvalid, match="minute"):
        started(app, Elsewhere())
