"""`tidemill audit`: who changed what in the project, with how it was before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Final

import typer

from tidemill.cli import connection, output
from tidemill.cli.enqueue import duration_ms

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

LONGEST: Final = 60


@app.command()
def audit(
    action: Annotated[str | None, typer.Option(help="Only this, such as queues.pause")] = None,
    kind: Annotated[str | None, typer.Option(help="Only changes of this kind of thing, such as queue or job")] = None,
    target: Annotated[str | None, typer.Option(help="Only changes of this thing: its id or name")] = None,
    actor: Annotated[str | None, typer.Option(help="Only by api_key, user or system")] = None,
    last: Annotated[str | None, typer.Option(help="Only the last 30m, 12h, 7d")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line")] = False,
) -> None:
    """Show who changed what, newest first, with what was different before and after."""
    since = (datetime.now(UTC) - timedelta(milliseconds=duration_ms(last))).isoformat() if last else None
    filters = {"action": action, "target_kind": kind, "target_id": target, "actor_kind": actor, "since": since}
    with connection.client() as client:
        found = list(islice(client.audit(page_size=min(limit, 200), **filters), limit))
    if as_json:
        for note in found:
            output.print_json(note)
        return
    if not found:
        print("no change is on record")
    for note in found:
        who = note["actor"] or note["actor_id"] or note["actor_kind"]
        print(f"{note['at']}  {note['action']}  by {who}")
        print(f"    {note['target_kind']} {note['target_id']}")
        for line in differences(note["before"], note["after"]):
            print(f"    {line}")


def differences(before: Any, after: Any) -> Iterator[str]:
    """`field: was → is` for each that differs; what had no before or has no after shows what is known of one side."""
    was, now = (side if isinstance(side, Mapping) else {} for side in (before, after))
    for field in dict.fromkeys([*was, *now]):
        if was.get(field) == now.get(field):
            continue
        sides = [_text(side[field]) for side in (was, now) if field in side]
        if len(sides) == 1 and sides[0] == "-":
            continue
        yield f"{field}: {' → '.join(sides)}"


def _text(value: Any) -> str:
    text = output.text(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
