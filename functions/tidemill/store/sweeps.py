"""What a scheduler pass sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import Connection

from tidemill.store.base import Adapter

RING_LAG: Final = timedelta(seconds=2)
"""For what is committed late; whoever is committed later still is found by a poll."""


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
        row = self._row("scheduler/prune_partitions", {"kept_ms": kept_ms, "limit": limit, "now": now})
        return int(row[0]) if row else 0

    def prune_batches(self, kept_ms: int, limit: int, *, now: datetime | None) -> int:
        row = self._row("scheduler/prune_batches", {"kept_ms": kept_ms, "limit": limit, "now": now})
        return int(row[0]) if row else 0

    def prune_workers(self, stale_ms: int, limit: int, *, now: datetime | None) -> tuple[int, int]:
        row = self._row("scheduler/prune_workers", {"stale_ms": stale_ms, "limit": limit, "now": now})
        return (int(row[0]), int(row[1])) if row else (0, 0)
