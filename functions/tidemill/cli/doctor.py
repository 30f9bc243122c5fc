"""`tidemill doctor`: what is wrong with a database, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.cli import connection, output
from tidemill.cli.app import REFUSED
from tidemill.cli.faults import database_faults

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def doctor(
    dsn: Annotated[str | None, typer.Option(help="postgresql://…; else TIDEMILL_DATABASE_URL")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per finding")] = False,
) -> None:
    """Look at a database: version, drift of the schema, zone data, what holds vacuum back, dead rows, connections. Reads only.

    Exit codes: 0 nothing failed, 1 something did, 3 it cannot be reached.
    """
    from tidemill.store.database import connect
    from tidemill.store.doctor import examine

    with database_faults(), connect(connection.database_url(dsn)) as conn:
        found = list(examine(conn))
    if as_json:
        for finding in found:
            output.print_json({"level": finding.level, "name": finding.name, "seen": finding.seen, "todo": finding.todo or None})
    else:
        rows = [(finding.level, finding.name, finding.seen + (f"\n→ {finding.todo}" if finding.todo else "")) for finding in found]
        output.print_findings(rows)
    if any(finding.level == "fail" for finding in found):
        raise typer.Exit(REFUSED)
