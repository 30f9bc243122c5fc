"""`tidemill worker`: runs the jobs of an app until it is told to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidemill import credentials
from tidemill.cli.app import MISUSED, one_line
from tidemill.cli.connection import NowhereToGo, database_url
from tidemill.config import Settings
from tidemill.domain.errors import Invalid, TidemillError
from tidemill.observe.correlation import install
from tidemill.runner.loading import load_app
from tidemill.runner.log import Log
from tidemill.runner.options import WorkerOptions
from tidemill.runner.signals import drain_with, end_at_once
from tidemill.runner.worker import Worker

if TYPE_CHECKING:
    from tidemill.ports import JobSource

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Source(StrEnum):
    """Where jobs come from."""

    POSTGRES = "postgres"
    HTTP = "http"


class Isolated(StrEnum):
    """Where thread jobs run."""

    THREAD = "thread"
    PROCESS = "process"


@app.command()
def worker(
    app_path: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Where the App is, such as myapp.jobs:app.")],
    queues: Annotated[str, typer.Option(help="Names of queues, separated by commas.")] = "default",
    concurrency: Annotated[int, typer.Option(help="Handlers that run at once.")] = 16,
    source: Annotated[Source | None, typer.Option(help="postgres where a database URL is set, else http.")] = None,
    dsn: Annotated[str | None, typer.Option(help="postgresql://… instead of TIDEMILL_DATABASE_URL.")] = None,
    project: Annotated[str | None, typer.Option(help="Project id, if the database holds several.")] = None,
    url: Annotated[str | None, typer.Option(help="http(s)://… of the API instead of TIDEMILL_URL.")] = None,
    stop_window_secs: Annotated[float, typer.Option(help="How long running jobs may go on after SIGTERM.")] = 30.0,
    lease_secs: Annotated[float, typer.Option(help="How long a job stays ours when we fall silent.")] = 60.0,
    name: Annotated[str | None, typer.Option(help="The worker's name; default: the host's.")] = None,
    isolation: Annotated[Isolated | None, typer.Option(help="Run thread jobs there instead.")] = None,
    tick: Annotated[
        bool, typer.Option("--tick", help="Fire due schedules and end lost leases every second too. Needs --source postgres.")
    ] = False,
    health_file: Annotated[Path | None, typer.Option(help="A file whose time is renewed every second while all is well.")] = None,
    metrics_port: Annotated[int | None, typer.Option(min=0, max=65_535, help="Serve this worker's figures there, at /metrics.")] = None,
    metrics_host: Annotated[str, typer.Option(help="The address of that port; by default only this machine can ask.")] = "127.0.0.1",
) -> None:
    """Run the jobs of an app. SIGTERM: no new jobs, finish what runs, give the rest back, exit 0. A second one: exit now."""
    end_at_once()
    try:
        settings = Settings.read()
        options = WorkerOptions(
            queues=tuple(part for part in (word.strip() for word in queues.split(",")) if part),
            concurrency=concurrency,
            lease_ms=round(lease_secs * 1000),
            stop_window_secs=stop_window_secs,
            isolation=_isolation(isolation),
            app_path=app_path,
            health_file=health_file,
            ecs_agent=os.environ.get("ECS_AGENT_URI"),
            protection_minutes=settings.protection_minutes,
            **({"name": name} if name is not None else {}),
        )
        jobs_from = _source(source, settings, dsn, project, url)
        duties = _duties(jobs_from) if tick else None
        loaded = load_app(app_path)
        install(settings.log_level)
        runner = Worker(loaded, jobs_from, options, Log(settings.log_level), duties)
        if metrics_port is not None:
            _serve_metrics(runner, metrics_port, metrics_host)
        drain_with(runner)
        reason = runner.run()
    except TidemillError as error:
        print(f"tidemill worker: {one_line(error)}", file=sys.stderr)
        raise typer.Exit(MISUSED) from error
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # it is over in a moment, and nothing is held
    _leave(reason)


def _leave(reason: Literal["stopped", "restart"]) -> None:
    """Ends the process although handlers that ignored their end may still hold threads; `restart` begins it anew in its place."""
    from tidemill.runner.descendants import kill_descendants

    kill_descendants()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # a handler took it away or closed it, or nobody reads it any more
            stream.flush()
    if reason == "restart":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)  # what is ignored stays so through an exec
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves
    os._exit(0)


def _serve_metrics(runner: Worker, port: int, host: str) -> None:
    from tidemill.runner.metrics import MetricsServer

    try:
        server = MetricsServer(runner, port, host)
    except OSError as error:
        raise Invalid([], f"--metrics-port {port} on {host} cannot be used: {error.strerror}; take another one") from error
    runner.log.info("metrics_served", host=host, port=server.port)


def _isolation(given: Isolated | None) -> Literal["thread", "process"] | None:
    if given is None:
        return None
    return "process" if given is Isolated.PROCESS else "thread"


def _duties(jobs_from: JobSource) -> Callable[[], object]:
    duties: Callable[[], object] | None = getattr(jobs_from, "tick", None)
    if duties is None:
        raise Invalid([], "--tick does the scheduler's work on the database itself: use --source postgres")
    return duties


def _source(wanted: Source | None, settings: Settings, dsn: str | None, project: str | None, url: str | None) -> JobSource:
    if wanted is Source.HTTP or (wanted is None and dsn is None and settings.database_url is None and (url or settings.url)):
        return _over_http(settings, url)
    from tidemill.runner.sources.postgres import PostgresSource
    from tidemill.store.login import login

    target = database_url(dsn)
    if project is None:
        local = credentials.read(credentials.default_folder())
        project = local.project_id if local is not None and local.dsn == target else None
    return PostgresSource(login(settings) if dsn is None and settings.database_url else target, project)


def _over_http(settings: Settings, url: str | None) -> JobSource:
    from tidemill.client.source import HttpSource

    target, api_key = url or settings.url, settings.api_key
    local = credentials.read(credentials.default_folder())
    if local is not None and target in (None, local.url):  # never send the local key elsewhere
        target, api_key = local.url, api_key or local.api_key
    if target is None or api_key is None:
        missing = "TIDEMILL_API_KEY" if target else "TIDEMILL_URL and TIDEMILL_API_KEY"
        raise NowhereToGo(f"no API to take jobs from: set {missing}, or --source postgres")
    return HttpSource(target, api_key)
