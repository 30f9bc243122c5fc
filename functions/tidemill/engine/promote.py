"""Promote: the sweep that wakes sleeping workers for what has become due. It never stands between a due job and a worker."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidemill.ports import SweepStore


def promote_due(store: SweepStore, *, limit: int = 1_000, now: datetime | None = None) -> Mapping[str, int]:
    """Counts what came due within the last 90 s (at most `limit`) and rings the doorbell of workers asleep on those queues."""
    due, rung = store.ring(limit, now=now)
    return {"due": due, "rung": rung}
