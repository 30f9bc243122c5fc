"""`tidemill tick`: one scheduler pass, over the API or directly on a database."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.app import REFUSED
from tidemill.cli.faults import database_faults

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def tick(
    dsn: Annotated[str | None, typer.Option(help="Run it here, on this database, instead of asking the API")] = None,
    budget: Annotated[int, typer.Option(min=0, help="With --dsn: for how many ms it goes on while there is a backlog")] = 20_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the phases as one JSON line")] = False,
) -> None:
    """Run one scheduler pass now: what each phase did. Exit 1 if a phase failed."""
    if dsn is None:
        with connection.client() as client:
            report: Mapping[str, Any] = client.tick()
    else:
        report = _directly(dsn, budget)
    phases = report["phases"]
    if as_json:
        output.print_json(report)
    else:
        rows = [(phase["name"], _counts(phase), f"{phase['duration_ms']} ms", phase["error"] or "-") for phase in phases]
        output.print_table(("phase", "did", "took", "error"), rows)
    if any(phase["error"] for phase in phases):
        raise typer.Exit(REFUSED)


def _directly(dsn: str, budget_ms: int) -> Mapping[str, Any]:
    from tidemill.engine.tick import tick as run_pass
    from tidemill.store.database import connect
    from tidemill.store.postgres import PostgresStore

    with database_faults(), connect(dsn) as conn:
        phases = run_pass(PostgresStore(conn), roll=random.random, clock=time.monotonic, budget_ms=budget_ms)
    return {"phases": [asdict(phase) for phase in phases]}


def _counts(phase: Mapping[str, Any]) -> str:
    done = ", ".join(f"{name} {count}" for name, count in phase["counts"].items() if count) or "nothing to do"
    return f"{done}; more is left" if phase["backlog"] else done
