"""`tidemill queues`: make queues, see them, hold them back, set what they allow, and remove them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from tidemill.cli import connection, output
from tidemill.cli.app import REFUSED
from tidemill.cli.asking import confirm
from tidemill.cli.enqueue import duration_ms
from tidemill.cli.operations import ENDED
from tidemill.cli.watching import watch
from tidemill.cli.words import summary
from tidemill.domain.errors import QueueNotEmpty

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True,
    help="List, show, create, set, pause, resume and delete queues.",
)  # fmt: skip

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
NONE: Final = "none"
"""What empties a limit on the command line."""
KEPT: Final = ("completed", "cancelled", "dead_letter")

Priority = Annotated[int | None, typer.Option(help="Higher ones are served first")]
Weight = Annotated[int | None, typer.Option(help="Share among queues of one priority")]
AtOnce = Annotated[str | None, typer.Option("--max-concurrency", help=f"Jobs at once, over all workers; {NONE}: no limit")]
Saturated = Annotated[
    str | None, typer.Option("--on-saturated", help="queue, or cancel_running: ask the oldest of lowest priority to stop")
]
Unfinished = Annotated[str | None, typer.Option("--max-unfinished-jobs", help=f"More are refused (429 queue_full); {NONE}: no limit")]
Lease = Annotated[int | None, typer.Option("--visibility-timeout-secs", help="How long a claim lasts without a heartbeat")]
Policy = Annotated[str | None, typer.Option("--retry-policy", help=f"The default retry policy's name; {NONE}: the built-in one")]
Losses = Annotated[int | None, typer.Option("--quarantine-after", help="Lost leases and crashes of a job before it is set aside")]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="STATE=TIME", help="How long ended jobs stay: completed=3d, cancelled=12h, dead_letter=30d; may repeat"),
]


@app.command("list")
def list_queues(as_json: AsJson = False) -> None:
    """List the queues by name, with what they allow."""
    with connection.client() as client:
        found = client.list_queues()
    if as_json:
        for one in found:
            output.print_json(one)
    else:
        columns = ("name", "state", "priority", "weight", "at once", "holds at most", "lease")
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


@app.command()
def create(
    name: Name, priority: Priority = None, weight: Weight = None, max_concurrency: AtOnce = None, on_saturated: Saturated = None,
    max_unfinished_jobs: Unfinished = None, lease: Lease = None, retry_policy: Policy = None, quarantine_after: Losses = None,
    keep: Keep = None, paused: Annotated[bool, typer.Option("--paused", help="Nothing is claimed from it until it is resumed")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Create a queue. What is not said is as in a project's first queue."""
    fields = _given(
        priority, weight, max_concurrency, on_saturated, max_unfinished_jobs, lease, retry_policy, quarantine_after, keep
    )  # fmt: skip
    _steer(lambda client: client.create_queue(name, **fields, **({"is_paused": True} if paused else {})), as_json=as_json)


@app.command("set")
def set_fields(
    name: Name, priority: Priority = None, weight: Weight = None, max_concurrency: AtOnce = None, on_saturated: Saturated = None,
    max_unfinished_jobs: Unfinished = None, lease: Lease = None, retry_policy: Policy = None, quarantine_after: Losses = None,
    keep: Keep = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Change a queue; what is not said stays. A new limit counts what runs already."""
    changes = _given(
        priority, weight, max_concurrency, on_saturated, max_unfinished_jobs, lease, retry_policy, quarantine_after, keep
    )  # fmt: skip
    if not changes:
        raise typer.BadParameter("say what to change, such as --max-concurrency 10; --help lists it")
    _steer(lambda client: client.edit_queue(name, **changes), as_json=as_json)


@app.command()
def delete(
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Also with jobs in it: they are deleted, those that run are asked to stop")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the emptying to its end")] = True,
    as_json: AsJson = False,
) -> None:
    """Delete a queue. One that holds jobs, ended ones included, is refused without --force."""
    with connection.client() as client:
        name = client.get_queue(name)["name"]
        what = "with all its jobs and their history" if force else "if it holds no job"
        confirm(f"Deletes queue {name}, {what}, for good.", yes=yes)
        try:
            found = client.delete_queue(name, force=force)
        except QueueNotEmpty as error:
            raise QueueNotEmpty(error.detail.replace("?force=true", "--force")) from error
        if found is not None and wait:
            found = watch(client, found, until=ENDED, quiet=as_json)
    gone = found is None or found["status"] == "completed"
    if as_json:
        output.print_json({"name": name, "deleted": gone, "operation": found})
    else:
        print(f"{name}: deleted" if gone else f"{name}: takes no more jobs")
        if found is not None:
            print(f"{found['id']}  {summary(found)}")
    if found is not None and found["status"] in ("failed", "aborted"):
        raise typer.Exit(REFUSED)


def _given(
    priority: int | None, weight: int | None, max_concurrency: str | None, on_saturated: str | None, max_unfinished_jobs: str | None,
    lease: int | None, retry_policy: str | None, quarantine_after: int | None, keep: list[str] | None,
) -> dict[str, Any]:  # fmt: skip
    """The API's fields, of what was said."""
    given: dict[str, Any] = {
        "priority": priority, "weight": weight, "on_saturated": on_saturated, "visibility_timeout_secs": lease,
        "quarantine_after": quarantine_after, "retention": _retention(keep) if keep else None,
    }  # fmt: skip
    fields = {field: value for field, value in given.items() if value is not None}
    fields |= {} if max_concurrency is None else {"max_concurrency": _limit("--max-concurrency", max_concurrency)}
    fields |= {} if max_unfinished_jobs is None else {"max_unfinished_jobs": _limit("--max-unfinished-jobs", max_unfinished_jobs)}
    return fields | ({} if retry_policy is None else {"default_retry_policy": None if retry_policy == NONE else retry_policy})


def _retention(keep: list[str]) -> dict[str, int]:
    parts = [text.partition("=") for text in keep]
    if unknown := next((state for state, _, _ in parts if state not in KEPT), None):
        raise typer.BadParameter(f"--keep takes {', '.join(KEPT)}, as in completed=3d, not {unknown[:40]!r}")
    return {f"{state}_ms": duration_ms(text) for state, _, text in parts}


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
    kept = {state.removesuffix("_ms"): output.span(ms / 1000) for state, ms in one["retention"].items()}
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
        ("kept", ", ".join(f"{state.replace('_', ' ')} {time}" for state, time in kept.items())),
        ("changed", one["updated_at"]),
    ]


def _standing(one: Mapping[str, Any]) -> str:
    return "closed" if one["is_closed"] else "paused" if one["is_paused"] else "open"


def _at_once(one: Mapping[str, Any]) -> str:
    rule = ", then asks to stop" if one["max_concurrency"] is not None and one["on_saturated"] == "cancel_running" else ""
    return _most(one["max_concurrency"]) + rule


def _most(limit: int | None) -> str:
    return "-" if limit is None else f"{limit:,}"
