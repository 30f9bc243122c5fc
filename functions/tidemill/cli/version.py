"""`tidemill version`: this code's, and the API's."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.version import __version__

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def version(
    api: Annotated[bool, typer.Option("--api", help="Ask the API too")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line")] = False,
) -> None:
    """Say which version this is."""
    found: dict[str, Any] = {"version": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    if api:
        with connection.client() as client:
            found["api"] = dict(client.version())
    if as_json:
        output.print_json(found)
        return
    print(f"tidemill {found['version']} (Python {found['python']})")
    for name, value in found.get("api", {}).items():
        print(f"api {name}: {value}")
