"""What was measured: rows of figures, as a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass
class Row:
    """One measurement beside its ceiling, run by run in turns. Rates in jobs per second, times in ms."""

    section: str
    what: str
    unit: str = "jobs/s"
    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    note: str = ""
    of_clean: float | None = None
    """What it keeps of the figure that the same code reached without what stands in its way here, measured in turns with it."""

    @property
    def ratio(self) -> float | None:
        """Median over the runs of ours : bare."""
        pairs = [o / b for o, b in zip(self.ours, self.bare, strict=False) if b]
        return statistics.median(pairs) if pairs else None

    def as_json(self) -> dict[str, Any]:
        """With every run, so that the spread can be seen."""
        return {
            "section": self.section,
            "what": self.what,
            "unit": self.unit,
            "ours": round(statistics.median(self.ours), 3) if self.ours else None,
            "bare": round(statistics.median(self.bare), 3) if self.bare else None,
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "ours_runs": [round(x, 3) for x in self.ours],
            "bare_runs": [round(x, 3) for x in self.bare],
            "of_clean": None if self.of_clean is None else round(self.of_clean, 3),
            "note": self.note,
        }


def table(rows: Sequence[Row], title: str) -> Table:
    """One line per row; the spread is lowest to highest of the runs."""
    shown = Table(title=title, title_justify="left")
    for name in ("", "measured", "ours", "spread", "bare loop", "ratio", ""):
        figures = name in ("ours", "spread", "bare loop", "ratio")
        shown.add_column(name, justify="right" if figures else "left", no_wrap=figures)
    last = ""
    for row in rows:
        if row.section != last:
            shown.add_section()
        ours = f"{_figure(statistics.median(row.ours))} {row.unit}" if row.ours else ""
        spread = f"{_figure(min(row.ours))}–{_figure(max(row.ours))}" if len(row.ours) > 1 else ""
        bare = _figure(statistics.median(row.bare)) if row.bare else ""
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        shown.add_row(row.section if row.section != last else "", row.what, ours, spread, bare, ratio, row.note)
        last = row.section
    return shown


def show(rows: Sequence[Row], title: str, console: Console) -> None:
    """Prints the table."""
    console.print(table(rows, title))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
