"""A page of a list: items as JSON text, and the cursor behind the last one. Stops early rather than exceed 4 MB."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tidemill.domain import limits
from tidemill.http.cursors import Cursors
from tidemill.http.operation import Answer, Call

T = TypeVar("T")
Position = Sequence[Any]


def size_of(call: Call) -> int:
    """How many rows were asked for."""
    limit: int = call.query.get("limit", limits.PAGE_DEFAULT)
    return limit


def cursors_of(call: Call, endpoint: str, **more: Any) -> Cursors:
    """The cursors of this list: bound to the endpoint, the project and every parameter but the page's own."""
    filters = {name: value for name, value in call.query.items() if name not in ("limit", "cursor", "include")}
    assert call.ring is not None
    return Cursors(call.ring, endpoint, call.project_id, filters | more)


def start_of(call: Call, cursors: Cursors) -> list[Any] | None:
    """The position to go on from; None at the start."""
    text = call.query.get("cursor")
    return cursors.position(text) if text is not None else None


def answer(items: Iterable[tuple[str, Position]], cursors: Cursors, *, more: Position | None, **extra: Any) -> Answer:
    """The page. `items`: JSON text and position of each; `more`: where to go on behind the last one (None: nothing is left).

    Takes no item that would bring the page over 4 MB, but always one.
    """
    texts: list[str] = []
    size, last = 0, more
    previous: Position | None = None
    for text, position in items:
        size += len(text.encode("utf-8", "surrogatepass")) + 1
        if texts and size > limits.PAGE_BYTES:
            last = previous
            break
        texts.append(text)
        previous = position
    cursor = cursors.text(last) if last is not None else None
    tail = "".join(f",{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}" for name, value in extra.items())
    return Answer(f'{{"items":[{",".join(texts)}],"next_cursor":{json.dumps(cursor)}{tail}}}')


def plain(call: Call, endpoint: str, rows: Callable[[Any, int], Sequence[T]], key: Callable[[T], Any], show: Callable[[T], Any]) -> Answer:
    """A page of few rows in the order of one key. `rows`: those behind a key (None: from the start), at most so many."""
    cursors = cursors_of(call, endpoint)
    start = start_of(call, cursors)
    size = size_of(call)
    found = rows(start[0] if start else None, size + 1)
    items = [(json.dumps(show(row), ensure_ascii=False, separators=(",", ":")), [key(row)]) for row in found[:size]]
    return answer(items, cursors, more=items[-1][1] if len(found) > size else None)
