"""`tidemill queues`: see queues, hold them back, and set what they allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, show, pause, resume and set queues."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
NONE = "none"
"""What empties a limit on the command line."""


@app.command("list")
def list_queues(as_json: AsJson = False) -> None:
    """List the queues by name, with what they allow."""
    with connection.client() as client:
        found = client.list_queues()
    if as_json:
        for one in found:
            output.print_json(one)
    else:
        columns = ("name", "state", "priority", "weight", "at once", "unfinished", "lease")
        output.print_table(columns, map(_row, found))


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show everything about a queue."""
    with connection.client() as client:
        found = client.get_queue(name)
    if as_json:
        output.print_json(found)
    else:
        output.print_fields(_fields(found))


@app.command()
def pause(name: Name, as_json: AsJson = False) -> None:
    """Pause a queue: nothing more is claimed from it; what runs goes on."""
    _steer(lambda client: client.pause_queue(name), as_json=as_json)


@app.command()
def resume(name: Name, as_json: AsJson = False) -> None:
    """End a queue's pause."""
    _steer(lambda client: client.resume_queue(name), as_json=as_json)


@app.command("set")
def set_fields(
    name: Name,
    priority: Annotated[int | None, typer.Option(help="Higher ones are served first")] = None,
    weight: Annotated[int | None, typer.Option(help="Share among queues of one priority")] = None,
    max_concurrency: Annotated[str | None, typer.Option(help=f"Jobs at once, over all workers; {NONE}: no limit")] = None,
    on_saturated: Annotated[str | None, typer.Option(help="queue, or cancel_running: ask the oldest of lowest priority to stop")] = None,
    max_unfinished_jobs: Annotated[str | None, typer.Option(help=f"More are refused (429 queue_full); {NONE}: no limit")] = None,
    lease: Annotated[int | None, typer.Option("--visibility-timeout-secs", help="How long a claim lasts without a heartbeat")] = None,
    retry_policy: Annotated[str | None, typer.Option(help=f"The default retry policy's name; {NONE}: the built-in one")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a queue; what is not said stays. A new limit counts what runs already."""
    given: dict[str, Any] = {"priority": priority, "weight": weight, "on_saturated": on_saturated, "visibility_timeout_secs": lease}
    changes = {field: value for field, value in given.items() if value is not None}
    changes |= {} if max_concurrency is None else {"max_concurrency": _limit("--max-concurrency", max_concurrency)}
    changes |= {} if max_unfinished_jobs is None else {"max_unfinished_jobs": _limit("--max-unfinished-jobs", max_unfinished_jobs)}
    changes |= {} if retry_policy is None else {"default_retry_policy": None if retry_policy == NONE else retry_policy}
    if not changes:
        raise typer.BadParameter("say what to change, such as --max-concurrency 10; --help lists it")
    _steer(lambda client: client.edit_queue(name, **changes), as_json=as_json)


def _limit(option: str, text: str) -> int | None:
    if text == NONE:
        return None
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{option} takes a whole number or {NONE}, not {text[:40]!r}")
    return int(text)


def _steer(verb: Callable[[Any], Mapping[str, Any]], *, as_json: bool) -> None:
    with connection.client() as client:
        found = verb(client)
    if as_json:
        output.print_json(found)
    else:
        output.print_fields(_fields(found))


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    lease = f"{one['visibility_timeout_secs']} s"
    return (one["name"], _standing(one), str(one["priority"]), str(one["weight"]), _at_once(one), _most(one["max_unfinished_jobs"]), lease)


def _fields(one: Mapping[str, Any]) -> list[tuple[str, str]]:
    kept = {state.removesuffix("_ms"): ms // 3_600_000 for state, ms in one["retention"].items()}
    return [
        ("name", one["name"]),
        ("state", _standing(one)),
        ("priority", str(one["priority"])),
        ("weight", str(one["weight"])),
        ("at once", _at_once(one)),
        ("unfinished at most", _most(one["max_unfinished_jobs"])),
        ("lease", f"{one['visibility_timeout_secs']} s without a heartbeat"),
        ("retry policy", one["default_retry_policy"] or "the built-in one"),
        ("quarantine after", f"{one['quarantine_after']} lost leases or crashes"),
        ("kept", ", ".join(f"{state.replace('_', ' ')} {hours} h" for state, hours in kept.items())),
        ("changed", one["updated_at"]),
    ]


def _standing(one: Mapping[str, Any]) -> str:
    return "closed" if one["is_closed"] else "paused" if one["is_paused"] else "open"


def _at_once(one: Mapping[str, Any]) -> str:
    rule = ", then asks to stop" if one["max_concurrency"] is not None and one["on_saturated"] == "cancel_running" else ""
    return _most(one["max_concurrency"]) + rule


def _most(limit: int | None) -> str:
    return "-" if limit is None else f"{limit:,}"
