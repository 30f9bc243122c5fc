"""Promote: the sweep that wakes sleeping workers for what has become due. It never stands between a due job and a worker."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidemill.ports import SweepStore


def promote_due(store: SweepStore, *, limit: int = 1_000, now: datetime | None = None) -> Mapping[str, int]:
    """Rings the doorbell of workers asleep on queues where something came due, and counts that (at most `limit`).

    It looks back to this store's last pass, and never more than 90 s.
    """
    due, rung = store.ring(limit, now=now)
    return {"due": due, "rung": rung}
