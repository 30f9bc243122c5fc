"""How a table fits into a terminal: texts give way before states and numbers, ids never do, and at the worst each row takes two lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GAP: Final = 2
ROOM: Final = 24
"""A column is not cut below so many characters while the first column could have a line of its own."""
LEAST: Final = 8
_WHOLE: Final = re.compile(r"[0-9a-f]{28,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|evt_\S+")
"""What people copy: ids and groups."""


@dataclass(frozen=True)
class Layout:
    """`widths` of all columns; `is_stacked`: the first one has a line of its own, above the others."""

    widths: tuple[int, ...]
    is_stacked: bool


def lay_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, stacks: bool = True, flexible: int | None = None
) -> Layout:
    """Widths that fit into `width` cells, as far as ids allow. `flexible`: the column that gives way first, else the widest does."""
    from rich.cells import cell_len

    cells = [(column, *(row[i] for row in rows)) for i, column in enumerate(columns)]
    natural = [max(map(cell_len, column)) for column in cells]
    is_whole = [any(_WHOLE.fullmatch(cell) for cell in column[1:]) for column in cells]

    def fitted(first: int, room: int, least: int) -> tuple[int, ...] | None:
        widths = natural[:]
        floors = [n if whole else min(n, max(least, cell_len(c))) for n, c, whole in zip(natural, columns, is_whole, strict=True)]
        while (over := sum(widths[first:]) + GAP * (len(columns) - first - 1) - room) > 0:
            slack = {i: widths[i] - floors[i] for i in range(first, len(columns)) if widths[i] > floors[i]}
            if not slack:
                return None
            give = flexible if flexible in slack else max(slack, key=lambda i: widths[i])
            others = max((widths[i] for i in slack if i != give), default=0)
            widths[give] -= min(over, slack[give], max(1, widths[give] - others)) if give != flexible else min(over, slack[give])
        return tuple(widths)

    plain = fitted(0, width, ROOM if stacks else LEAST)
    if plain is not None:
        return Layout(plain, False)
    stacked = fitted(1, width - GAP, LEAST) if stacks else None
    if stacked is not None:
        return Layout(stacked, True)
    return Layout(fitted(0, width, LEAST) or tuple(natural), False)
