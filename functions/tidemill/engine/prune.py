"""Prune: what has been over for long enough goes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidemill.ports import SweepStore

STALE_WORKER_MS = 86_400_000


def prune(store: SweepStore, *, limit: int = 1_000, now: datetime | None = None) -> Mapping[str, int]:
    """Removes at most `limit` of each kind and returns the counts: jobs, unique keys, workers, heartbeats.

    A job's age counts from its end, per final state; a job that has not ended is never removed.
    """
    ended = sorted(job_id for _, job_id in store.prunable(limit, now=now))
    jobs = store.prune(ended, now=now) if ended else 0
    workers, heartbeats = store.prune_workers(STALE_WORKER_MS, limit, now=now)
    return {"jobs": jobs, "unique_keys": store.prune_holds(limit, now=now), "workers": workers, "heartbeats": heartbeats}
