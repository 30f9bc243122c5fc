"""Settle dependants left behind: the sweep behind the exact protocol of engine.family."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidemill.engine.batch_store import DependantStore
from tidemill.engine.family import count_ended, settle_children

EDGES = 1_000


def sweep(store: DependantStore, *, now: datetime | None = None) -> Mapping[str, int]:
    """Looks at the next 1,000 open edges and settles those whose parent has ended; how many parents that were.

    Each pass goes on where the last one stopped, so that every edge has its turn however many are rightly open.
    """
    with store.transaction():
        left = store.left_behind(limit=EDGES)
        if left:
            count_ended(store, settle_children(store, left, now=now), now=now)
    return {"parents": len(left)}
