"""`tidemill dev`: the command line of the local instance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemill import credentials
from tidemill.config import Settings
from tidemill.local.options import PORT, Options

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def dev(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 = any that is free")] = PORT,
    data_dir: Annotated[Path | None, typer.Option(help="Where the database lives; .tidemill here, or of this checkout")] = None,
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="A temporary database, removed at the end")] = False,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Without the demo worker")] = False,
    handlers: Annotated[Path | None, typer.Option(help="Your folder, as named in cdk.json: the worker runs the App in it")] = None,
    app_path: Annotated[str, typer.Option("--app", metavar="MODULE:APP", help="Where the App is in that folder")] = "jobs:app",
    no_ticks: Annotated[bool, typer.Option("--no-ticks", help="Without the scheduler's tick every second")] = False,
    no_page: Annotated[bool, typer.Option("--no-page", help="Serve the page as it is; do not build it when its sources change")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line once ready; logs go to standard error")] = False,
) -> None:
    """Run the whole product on this machine: Postgres, the API, ticks, a demo worker. Ctrl-C ends it all.

    Exit codes: 0 ended by a signal; 1 a part broke down; 2 a port in use, a data folder that cannot be used, and the like.
    """
    if ephemeral and data_dir is not None:
        raise typer.BadParameter("give --data-dir or --ephemeral, not both")
    if handlers is not None and not handlers.is_dir():
        raise typer.BadParameter(f"--handlers {handlers}: no such folder")
    settings = Settings.read()
    from tidemill.local.dev import run

    options = Options(
        port=port, folder=None if ephemeral else data_dir or credentials.default_folder(), has_worker=not no_worker,
        handlers=handlers.resolve() if handlers else None, app=app_path,
        ticks=not no_ticks, builds_page=not (no_page or ephemeral), as_json=as_json, log_level=settings.log_level,
    )  # fmt: skip
    raise typer.Exit(run(options))
