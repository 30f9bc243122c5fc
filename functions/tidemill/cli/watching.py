"""Follows a bulk operation: a bar for people, a line now and then for a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidemill.client import Client

LOOK_SECS: Final = 0.5
LINE_SECS: Final = 10.0


def watch(client: Client, found: Mapping[str, Any], *, until: Sequence[str], quiet: bool) -> Mapping[str, Any]:
    """The operation as it is once it has one of these statuses. Ctrl-C ends the watching, not the operation."""
    try:
        if quiet or not sys.stdout.isatty():
            return _lines(client, found, until, quiet=quiet)
        return _bar(client, found, until)
    except KeyboardInterrupt:
        print(f"\nit goes on without being watched: tidemill operations show {found['id']}, or abort {found['id']}", file=sys.stderr)
        return client.get_operation(found["id"])


def done_of(found: Mapping[str, Any]) -> tuple[int, int | None]:
    """(jobs dealt with, of how many: None if nobody knows)."""
    undo = found.get("undo")
    if undo:
        return undo["restored"] + undo["skipped"], found["affected"]
    return found["affected"] + found["skipped"], found["total"]


def _lines(client: Client, found: Mapping[str, Any], until: Sequence[str], *, quiet: bool) -> Mapping[str, Any]:
    told = time.monotonic()
    while found["status"] not in until:
        time.sleep(LOOK_SECS)
        found = client.get_operation(found["id"])
        if not quiet and time.monotonic() - told >= LINE_SECS:
            told, (done, total) = time.monotonic(), done_of(found)
            print(f"{done:,} of {'?' if total is None else f'{total:,}'}", flush=True)
    return found


def _bar(client: Client, found: Mapping[str, Any], until: Sequence[str]) -> Mapping[str, Any]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task(found["action"], total=None)
        while found["status"] not in until:
            done, total = done_of(found)
            progress.update(task, completed=done, total=total, description=found["status"])
            time.sleep(LOOK_SECS)
            found = client.get_operation(found["id"])
    return found
