"""`tidemill migrate`: bring a database to the version of this code."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.cli import connection, output
from tidemill.cli.faults import database_faults

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def migrate(
    dsn: Annotated[str | None, typer.Option(help="postgresql://…; else TIDEMILL_DATABASE_URL")] = None,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for other migrators and table locks")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was applied as one JSON line")] = False,
) -> None:
    """Apply what is missing. Any number may run at once; a repeat applies nothing."""
    from tidemill.store.database import connect
    from tidemill.store.migrate import current_version
    from tidemill.store.migrate import migrate as apply

    with database_faults(), connect(connection.database_url(dsn)) as conn:
        applied = apply(conn, wait_s=wait)
        version = current_version(conn)
    if as_json:
        output.print_json({"applied": [migration.name for migration in applied], "version": version})
        return
    for migration in applied:
        print(f"applied {migration.name}")
    print(f"version {version}" + ("" if applied else ": nothing was left to apply"))
