"""`tidemill webhook`: who is told of dead jobs, and how that went."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final

import typer

from tidemill.cli import connection, output
from tidemill.client.api import Client

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="Show, set, rotate, test and delete the error webhook."
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
SHOWN_ONCE: Final = "shown only now: the receiver verifies with it"
LOOK_S: Final = 0.5


@app.command()
def show(
    limit: Annotated[int, typer.Option(min=0, max=200, help="Of its calls, how many of the newest")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show the webhook and its newest calls."""
    with connection.client() as client:
        hook, calls = client.get_webhook(), list(islice(client.list_deliveries(), limit))
    if as_json:
        output.print_json({**hook, "deliveries": calls})
        return
    output.print_fields([(name.replace("_", " "), _text(value)) for name, value in hook.items()])
    if calls:
        output.print_table(("call", "event", "things", "status", "attempts", "age", "error"), map(_row, calls), state_column=3)


@app.command("set")
def put(
    url: Annotated[str, typer.Argument(metavar="URL", help="https://… at a public address")],
    events: Annotated[
        list[str] | None, typer.Option("--event", help="job.dead_letter (default), fingerprint.quarantined, schedule.broken; repeat it")
    ] = None,
    queues: Annotated[list[str] | None, typer.Option("--queue", help="Dead letters of this queue only; repeat it for several")] = None,
    paused: Annotated[bool | None, typer.Option("--paused/--active", help="Note and send nothing; or go on")] = None,
    as_json: AsJson = False,
) -> None:
    """Make the webhook, whose secret is printed once, or change it, which keeps its secret."""
    fields: dict[str, Any] = {"queues": queues or None}
    if events:
        fields["events"] = events
    if paused is not None:
        fields["is_paused"] = paused
    with connection.client() as client:
        _print(client.put_webhook(url, **fields), as_json=as_json)


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Make a new secret; the old one signs beside it for a day."""
    with connection.client() as client:
        _print(client.rotate_webhook(), as_json=as_json)


@app.command("test")
def try_out(
    wait: Annotated[float, typer.Option(min=0, help="For so many seconds look how it goes")] = 90.0,
    as_json: AsJson = False,
) -> None:
    """Have a test call made, and wait for it. Exit code 1 if it does not arrive."""
    with connection.client() as client:
        asked_at, until = client.test_webhook()["asked_at"], time.monotonic() + wait
        found = _test_call(client, asked_at)
        while time.monotonic() < until and (found is None or (found["status"] == "waiting" and not found["last_error"])):
            time.sleep(LOOK_S)
            found = _test_call(client, asked_at)
    if as_json:
        output.print_json(found or {"asked_at": asked_at})
    elif found is None:
        print("the call is not on its way yet: the scheduler's next pass makes it")
    else:
        print(f"evt_{found['id']}: {found['status']}{', ' + found['last_error'] if found['last_error'] else ''}")
    if found is None or found["status"] != "delivered":
        raise typer.Exit(1)


@app.command()
def delete() -> None:
    """Remove the webhook with its secret and the list of its calls."""
    with connection.client() as client:
        client.delete_webhook()
    print("the webhook is gone")


def _test_call(client: Client, asked_at: str) -> Mapping[str, Any] | None:
    newest = islice(client.list_deliveries(), 20)
    return next((one for one in newest if one["event"] == "webhook.test" and one["created_at"] >= asked_at), None)


def _print(hook: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(hook)
        return
    fields = [("url", hook["url"]), ("events", " ".join(hook["events"])), ("status", hook["status"])]
    if secret := hook.get("secret"):
        print(secret)  # alone on its line, to copy or to pipe
        fields.append(("note", SHOWN_ONCE))
    output.print_fields(fields)


def _row(call: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        call["id"], call["event"], str(call["things"]), call["status"], str(call["attempts"]),
        output.age(datetime.fromisoformat(call["created_at"])), call["last_error"] or "-",
    )  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(value)
    return "-" if value is None else "yes" if value is True else "no" if value is False else str(value)
