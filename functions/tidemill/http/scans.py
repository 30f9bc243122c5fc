"""A page of what matches, found by a walk along an index of bounded length: it may end early, even empty, with a place to go on from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from tidemill.domain import limits

T = TypeVar("T")

CHUNK: Final = 500


def scanned(
    walk: Callable[[T | None, int], Sequence[T]], matching: Callable[[Sequence[T]], Sequence[T]], after: T | None, size: int
) -> tuple[list[T], T | None]:
    """At most `size` matches in the walk's order, and where to go on (None: there is no more).

    walk: the next places behind one, at most so many; fewer mean the end. matching: those of them that match, in order.
    Looks at no more than limits.SCAN_ROWS places.
    """
    found: list[T] = []
    looked = 0
    chunk = min(size + 1, CHUNK)
    while True:
        limit = min(chunk, limits.SCAN_ROWS - looked)
        places = walk(after, limit)
        for place in matching(places) if places else ():
            if len(found) == size:
                return found, found[-1]
            found.append(place)
        looked += len(places)
        if len(places) < limit:
            return found, None
        after = places[-1]
        if looked >= limits.SCAN_ROWS:
            return found, after
        chunk = CHUNK
