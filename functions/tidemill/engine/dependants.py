"""Settle dependants left behind: the sweep behind the exact protocol of engine.family."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidemill.engine.family import count_members, settle_children
from tidemill.ports import FamilyStore, Rolls

EDGES = 1_000


def sweep(store: FamilyStore, *, roll: Rolls, now: datetime | None = None) -> Mapping[str, int]:
    """Looks at most at 1,000 open edges from a random place on and settles those whose parent has ended; how many parents that were.

    Random ids as starting points make passes cover all edges in time without a stored position.
    """
    start = f"{int(roll() * 2**32):08x}-0000-0000-0000-000000000000"
    with store.transaction():
        left = store.left_behind(after=start, limit=EDGES) or store.left_behind(after="00000000-0000-0000-0000-000000000000", limit=EDGES)
        if left:
            cancelled = settle_children(store, left, now=now)
            batch_of = store.batches_of([job_id for job_id, _ in cancelled])
            count_members(store, [(batch_of[j], outcome, 1) for j, outcome in cancelled if j in batch_of], now=now)
    return {"parents": len(left)}
