"""The figures of all projects that a scheduler pass tells to the outside."""

from __future__ import annotations

from typing import NamedTuple


class Figures(NamedTuple):
    """What stands now (queued and oldest: in queues that are not paused), and what happened since they were told last (arrived to died)."""

    queued: int
    scheduled: int
    running: int
    oldest_queued_age_ms: int
    dead: int
    workers: int
    slots: int
    arrived: int
    completed: int
    failed: int
    died: int
    lag_ms: int
