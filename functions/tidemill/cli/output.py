"""How commands print: JSON for programs, tables for people. Rich loads only for what goes to people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

COLOURS: Final = {
    "completed": "green", "running": "cyan", "claimed": "cyan", "queued": "yellow", "scheduled": "blue", "pending": "blue",
    "dead_letter": "red", "quarantined": "magenta", "cancelled": "dim",
    "stale": "red", "quiet": "yellow", "draining": "yellow", "stopped": "dim", "ok": "green", "warn": "yellow", "fail": "red",
    "planned": "blue", "applying": "cyan", "undoing": "cyan", "failed": "red", "aborted": "magenta", "undone": "dim",
    "active": "green", "failing": "red", "paused": "yellow", "delivered": "green", "waiting": "blue", "dropped": "dim",
}  # fmt: skip
PLAIN_WIDTH: Final = 200


def print_json(value: Any) -> None:
    """One value on one line, as the API sent it."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def console() -> Console:
    """Standard output; a pipe gets wide lines without colours."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, state_column: int | None = None, flexible: int | None = None
) -> None:
    """A table that fits the terminal (tables.lay_out); a state has its colour. `flexible`: the column that makes way for the others."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    from tidemill.cli.tables import GAP, lay_out

    cells, target = [list(row) for row in rows], console()
    layout = lay_out(columns, cells, target.width, stacks=target.is_terminal, flexible=flexible)

    def line(row: Sequence[str], style: str) -> Text:
        parts = Text()
        for i, (cell, width) in enumerate(zip(row, layout.widths, strict=True)):
            shown = cell if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"
            colour = style or (COLOURS.get(cell, "") if i == state_column else "")
            is_last = i == len(row) - 1
            if layout.is_stacked and i == 0:
                parts.append(f"{cell}\n{' ' * GAP}", style)
            else:
                parts.append(shown if is_last else set_cell_size(shown, width) + " " * GAP, colour)
        return parts

    for row, style in ((columns, "dim"), *((row, "") for row in cells)):
        target.print(line(row, style), soft_wrap=True)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Labels and values below each other; long values wrap in their column."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in fields:
        table.add_row(label, Text(value, COLOURS.get(value, "")))
    console().print(table)


def print_findings(rows: Iterable[Sequence[str]]) -> None:
    """A level in its colour, a name, and a text that wraps in its column."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for level, name, text in rows:
        table.add_row(Text(level, COLOURS.get(level, "")), name, Text(text))
    console().print(table)


def text(value: Any) -> str:
    """A field as people read it; what has parts is JSON."""
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return "-" if value is None else "yes" if value is True else "no" if value is False else str(value)


def spark(counts: Sequence[int]) -> str:
    """One character per count, its height in proportion to the largest; `·` for none."""
    top = max(counts, default=0)
    return "".join("·" if count <= 0 else "▁▂▃▄▅▆▇█"[min(7, (count * 8 - 1) // top)] for count in counts)


def instant(text: str | None) -> datetime | None:
    """An instant as the API writes it."""
    return datetime.fromisoformat(text) if text else None


def age(at: datetime | None, now: datetime | None = None) -> str:
    """How long ago (`3m 5s`) or how far ahead (`in 3m 5s`); `-` for no time."""
    if at is None:
        return "-"
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    text = span(abs(seconds))
    return f"in {text}" if seconds < -0.5 else text


def span(seconds: float) -> str:
    """The two largest units: `2d 3h`, `1h 59m`, `3m 5s`, `12s`."""
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return " ".join(part for part in parts[:2] if part) or "0s"
