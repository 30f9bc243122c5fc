"""What a scheduler pass sweeps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import Connection

from tidemill.store.base import Adapter, texts

RING_LAG: Final = timedelta(seconds=2)
"""For what is committed late; whoever is committed later still is found by a poll."""
QUEUE_MS: Final = 1_000
"""How long to wait in line for a queue. Whoever is in front leaves after engine.claim.TURN_MS, or has it for one claim: that is enough."""
QUEUES_MS: Final = 3_000
"""... and for all queues of a pass; those that are left come first in the next one."""


class Sweeps(Adapter):
    """Implements the rest of ports.SweepStore."""

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn)
        self._rung_since: datetime | None = None

    def ring(self, limit: int, *, now: datetime | None) -> tuple[int, int]:
        row = self._row("scheduler/ring", {"limit": limit, "since": self._rung_since if now is None else None, "now": now})
        if row is None:
            return 0, 0
        if now is None and row[0] < limit:
            self._rung_since = row[2] - RING_LAG
        return int(row[0]), int(row[1])

    def prunable(self, limit: int, *, now: datetime | None) -> list[tuple[str, str]]:
        done = self._rows("scheduler/prune_completed", {"limit": limit, "now": now})
        rest = limit - len(done)
        ended = self._rows("scheduler/prune_ended", {"limit": rest, "now": now}) if rest > 0 else []
        return [(row[0], row[1]) for row in (*done, *ended)]

    def prune(self, job_ids: Sequence[str], *, now: datetime | None) -> int:
        with self.transaction():
            gone = [row[0] for row in self._rows("transitions/prune", {"job_ids": list(job_ids), "now": now})]
            self._forget_keys(gone)
        return len(gone)

    def prune_holds(self, limit: int, *, now: datetime | None) -> int:
        row = self._row("scheduler/prune_holds", {"limit": limit, "now": now})
        return int(row[0]) if row else 0

    def prune_partitions(self, kept_ms: int, limit: int, *, now: datetime | None) -> int:
        gone, wait_until = 0, time.monotonic() + QUEUES_MS / 1000
        for queue_id, partition_keys in self._rows("scheduler/idle_partitions", {"kept_ms": kept_ms, "limit": limit, "now": now}):
            left_ms = max(0, int((wait_until - time.monotonic()) * 1000))
            params = {"queue_id": queue_id, "partition_keys": texts(partition_keys), "wait_ms": min(QUEUE_MS, left_ms)}
            row = self._row("scheduler/prune_partitions", {**params, "kept_ms": kept_ms, "now": now})
            gone += int(row[0] or 0) if row else 0
        return gone

    def prune_batches(self, kept_ms: int, limit: int, *, now: datetime | None) -> int:
        row = self._row("scheduler/prune_batches", {"kept_ms": kept_ms, "limit": limit, "now": now})
        return int(row[0]) if row else 0

    def prune_workers(self, stale_ms: int, limit: int, *, now: datetime | None) -> tuple[int, int]:
        row = self._row("scheduler/prune_workers", {"stale_ms": stale_ms, "limit": limit, "now": now})
        return (int(row[0]), int(row[1])) if row else (0, 0)
