"""`tidemill quarantine`: jobs that took their workers with them, and what becomes of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.client.api import Client

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="List, release and discard jobs that took their workers with them. A fingerprint may be cut to its first characters.",
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
Fingerprint = Annotated[str, typer.Argument(metavar="FINGERPRINT", help="In full, or as many first characters as tell it from the others")]
WHOLE = 64
SEARCHED = 1_000


@app.command("list")
def list_quarantine(limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 20, as_json: AsJson = False) -> None:
    """List quarantined fingerprints, the newest first."""
    with connection.client() as client:
        found = list(islice(client.list_quarantine(), limit))
    if as_json:
        for one in found:
            output.print_json(one)
    elif not found:
        print("nothing is quarantined")
    else:
        columns = ("fingerprint", "type", "status", "jobs", "losses", "reason", "exit", "since")
        output.print_table(columns, map(_row, found), state_column=2)


@app.command()
def show(fingerprint: Fingerprint, as_json: AsJson = False) -> None:
    """Show what led to a quarantine, and which jobs it holds."""
    with connection.client() as client:
        found = client.get_quarantine(_whole(client, fingerprint))
    if as_json:
        output.print_json(found)
    else:
        fields = [(name, _text(value)) for name, value in found.items() if name not in ("jobs", "sample", "actions")]
        output.print_fields(
            [*fields, ("jobs", _count(found)), ("for example", "\n".join(found["sample"])), ("can be", ", ".join(_done(found)))]
        )


@app.command()
def release(fingerprint: Fingerprint, as_json: AsJson = False) -> None:
    """Put the jobs back to where they came from; new ones pass from now on."""
    with connection.client() as client:
        _say(client.release_quarantine(_whole(client, fingerprint)), "released", as_json)


@app.command()
def discard(fingerprint: Fingerprint, as_json: AsJson = False) -> None:
    """Cancel the jobs that are set aside; later ones are still set aside."""
    with connection.client() as client:
        _say(client.discard_quarantine(_whole(client, fingerprint)), "discarded", as_json)


def _whole(client: Client, text: str) -> str:
    """The fingerprint that begins so; the text itself if none or several of the newest 1,000 do."""
    if len(text) >= WHOLE:
        return text
    found = [q["fingerprint"] for q in islice(client.list_quarantine(), SEARCHED) if q["fingerprint"].startswith(text.lower())]
    if len(found) > 1:
        print(f"tidemill: {len(found)} fingerprints begin with {text!r}: give more of it", file=sys.stderr)
        raise typer.Exit(1)
    return str(found[0]) if found else text


def _say(answer: Mapping[str, Any], done: str, as_json: bool) -> None:
    if as_json:
        output.print_json(answer)
    else:
        rest = "" if answer["is_done"] else "; the scheduler's next passes do the rest"
        print(f"{answer['fingerprint'][:12]}: {answer['moved']} {'job' if answer['moved'] == 1 else 'jobs'} {done}{rest}")


def _row(found: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        found["fingerprint"][:12],
        found["job_type"],
        found["status"],
        _count(found),
        str(found["losses"]),
        _text(found["reason"]),
        _text(found["last_exit_code"]),
        output.age(datetime.fromisoformat(found["quarantined_at"])),
    )


def _count(found: Mapping[str, Any]) -> str:
    jobs = found["jobs"]
    return f"{jobs['count']}{'+' if jobs['approximate'] else ''}"


def _done(found: Mapping[str, Any]) -> list[str]:
    return [f"{action}{'ed' if action == 'discard' else 'd'}" for action in found["actions"]]


def _text(value: Any) -> str:
    return "-" if value is None else "yes" if value is True else "no" if value is False else str(value)
