"""`tidemill rate-classes`: how fast jobs may start, over all workers, and the kill switch of each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.enqueue import duration_ms

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, put, pause, resume and delete rate classes."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The class's name, as in `rate_class` of its jobs")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]


@app.command("list")
def list_classes(as_json: AsJson = False) -> None:
    """List the rate classes by name, with the tokens that they have now."""
    with connection.client() as client:
        found = client.list_rate_classes()
    if as_json:
        for one in found:
            output.print_json(one)
    elif not found:
        print("there are no rate classes")
    else:
        output.print_table(("name", "state", "rate", "burst", "tokens"), map(_row, found))


@app.command()
def put(
    name: Name,
    limit: Annotated[int, typer.Option(help="Tokens that it gains in each window; a job costs its weight")],
    window: Annotated[str, typer.Option(help="The window: 500ms, 1s, 5m, 1h")] = "1s",
    burst: Annotated[int | None, typer.Option(help="Tokens that it holds at most; else as many as it gains in a window")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a rate class, with a full bucket, or change it. Jobs that wait already follow; a pause stays."""
    window_ms = duration_ms(window)
    _steer(lambda client: client.put_rate_class(name, limit=limit, window_ms=window_ms, burst=burst), as_json=as_json)


@app.command()
def pause(name: Name, as_json: AsJson = False) -> None:
    """Pause a class: nothing of it is claimed any more; what runs goes on."""
    _steer(lambda client: client.pause_rate_class(name), as_json=as_json)


@app.command()
def resume(name: Name, as_json: AsJson = False) -> None:
    """End a class's pause: its bucket fills from zero."""
    _steer(lambda client: client.resume_rate_class(name), as_json=as_json)


@app.command()
def delete(name: Name, as_json: AsJson = False) -> None:
    """Delete a class: its jobs, also those that wait already, are free of it."""
    with connection.client() as client:
        client.delete_rate_class(name)
    output.print_json({"name": name, "deleted": True}) if as_json else print(f"{name}: deleted")


def _steer(verb: Callable[[Any], Mapping[str, Any]], *, as_json: bool) -> None:
    with connection.client() as client:
        found = verb(client)
    if as_json:
        output.print_json(found)
    else:
        labels = ("name", "state", "rate", "burst", "tokens")
        output.print_fields(list(zip(labels, _row(found), strict=True)))


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    window_ms = one["window_ms"]
    rate = f"{one['limit']:,} per {output.span(window_ms / 1000) if window_ms % 1_000 == 0 else f'{window_ms} ms'}"
    return (one["name"], _standing(one), rate, f"{one['burst']:,}", f"{one['tokens']:,.1f}")


def _standing(one: Mapping[str, Any]) -> str:
    closed_until = one["closed_until"]
    if one["is_paused"] or closed_until is None:
        return "paused" if one["is_paused"] else "open"
    return f"closed until {datetime.fromisoformat(closed_until):%H:%M:%S} UTC"
