"""`tidemill dead-letters`: what died, by job or by kind of error, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.app import AWAY, REFUSED, exit_code, one_line
from tidemill.client import Client
from tidemill.domain.errors import TidemillError

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, group, retry and discard dead jobs."
)

Queue = Annotated[str | None, typer.Option(help="Only this queue")]
Type = Annotated[str | None, typer.Option("--type", help="Only this job type")]
ErrorClass = Annotated[str | None, typer.Option("--error", help="Only this error class")]
Group = Annotated[str | None, typer.Option(help="Only this kind of error, as `groups` names it")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID…]", help="Job ids")]
Note = Annotated[str | None, typer.Option(help="A word to keep with it")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
Limit = Annotated[int, typer.Option(min=1, help="How many at most")]


@app.command("list")
def list_letters(
    queue: Queue = None, job_type: Type = None, error: ErrorClass = None, group: Group = None, limit: Limit = 20, as_json: AsJson = False
) -> None:
    """List dead letters that nobody has settled, the latest first."""
    filters = {"queue": queue, "job_type": job_type, "error_class": error, "error_group": group}
    with connection.client() as client:
        found = list(islice(client.list_dead_letters(page_size=min(limit, 200), **filters), limit))
    if as_json:
        for letter in found:
            output.print_json(letter)
    elif not found:
        print("no dead letter")
    else:
        output.print_table(("id", "type", "queue", "reason", "tries", "died", "error"), map(_row, found), flexible=6)


@app.command()
def groups(queue: Queue = None, job_type: Type = None, error: ErrorClass = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """Group dead letters by kind of error: class and message without ids, numbers and quoted text. The most frequent first."""
    with connection.client() as client:
        every = client.list_error_groups(queue=queue, job_type=job_type, error_class=error)
        found = sorted(islice(every, 1_000), key=lambda group: -group["count"]["count"])[:limit]
    if as_json:
        for group in found:
            output.print_json(group)
    elif not found:
        print("no dead letter")
    else:
        output.print_table(("group", "dead", "last 24 h", "first", "last", "error"), map(_group_row, found), flexible=5)


@app.command()
def retry(ids: Ids = None, group: Group = None, note: Note = None, as_json: AsJson = False) -> None:
    """Put dead jobs back at their first attempt: these, or all of one kind of error."""
    _settle("retry", ids, group, note, as_json=as_json)


@app.command()
def discard(ids: Ids = None, group: Group = None, note: Note = None, as_json: AsJson = False) -> None:
    """Take dead jobs out of the open dead letters: these, or all of one kind of error. They stay dead."""
    _settle("discard", ids, group, note, as_json=as_json)


def _settle(action: str, ids: list[str] | None, group: str | None, note: str | None, *, as_json: bool) -> None:
    """Each by itself, a line for each; exit 1 if any failed, at once with 3 if nothing can be reached."""
    if bool(ids) == bool(group):
        raise typer.BadParameter("give job ids, or --group with a kind of error that `tidemill dead-letters groups` names")
    failed = False
    with connection.client() as client:
        for job_id in ids or _of_group(client, group):
            try:
                state = client.resolve_dead_letter(job_id, action, note=note)["job"]["state"]
            except TidemillError as error:
                if exit_code(error) == AWAY:
                    raise
                failed = True
                if as_json:
                    output.print_json({"job_id": job_id, "error": {"code": error.code, "detail": error.detail}})
                else:
                    print(f"{job_id}  failed: {one_line(error)}")
                continue
            if as_json:
                output.print_json({"job_id": job_id, "state": state})
            else:
                print(f"{job_id}  {state}" + (" (discarded)" if action == "discard" else ""))
    if failed:
        raise typer.Exit(REFUSED)


def _of_group(client: Client, group: str | None) -> Iterator[str]:
    return (letter["job_id"] for letter in client.list_dead_letters(error_group=group))


def _row(letter: Mapping[str, Any]) -> tuple[str, ...]:
    plain = (letter["job_id"], letter["job_type"], letter["queue"], letter["reason"], str(letter["attempt_count"]))
    return (*plain, output.age(datetime.fromisoformat(letter["moved_at"])), _error(letter["error"]))


def _error(error: Mapping[str, Any] | None) -> str:
    text = f"{error['class'] or ''}: {error['message'] or ''}" if error else "-"
    return " ".join(text.split())


def _group_row(group: Mapping[str, Any]) -> tuple[str, ...]:
    count = f"{group['count']['count']:,}" + ("+" if group["count"]["approximate"] else "")
    ages = (output.age(datetime.fromisoformat(group[name])) for name in ("first_seen_at", "last_seen_at"))
    text = f"{group['error_class'] or ''}: {group['message']}"
    return (group["error_group"], count, output.spark(group["last_24_h"]), *ages, text)
