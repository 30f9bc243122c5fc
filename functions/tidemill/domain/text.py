"""Characters that Postgres cannot store: NUL and lone surrogates. Refused at the door, replaced in worker reports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_BAD: Final = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> bool:
    """True if Postgres can store `text` as it is."""
    return _BAD.search(text) is None


def cleaned(text: str) -> str:
    """`text` with each NUL and lone surrogate replaced by U+FFFD."""
    return _BAD.sub("\ufffd", text)


def cleaned_json(value: Any) -> Any:
    """A JSON value with every string and key cleaned (depth is bounded by the parser that made it)."""
    match value:
        case str():
            return cleaned(value)
        case list():
            return [cleaned_json(v) for v in value]
        case dict():
            return {cleaned(k): cleaned_json(v) for k, v in value.items()}
        case _:
            return value


def unstorable_paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Places within a JSON value whose text or key Postgres cannot store. Keys in the path are cleaned."""
    match value:
        case str():
            if not storable(value):
                yield at
        case list():
            for i, item in enumerate(value):
                yield from unstorable_paths(item, (*at, i))
        case dict():
            for key, item in value.items():
                if not storable(key):
                    yield (*at, cleaned(key))
                yield from unstorable_paths(item, (*at, cleaned(key)))
