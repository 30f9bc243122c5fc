"""Partitions of a queue: read whole within bounds, and their weights."""

from __future__ import annotations

from typing import Final

from tidemill.store.reads import Reads, Row

LANES: Final = 10_000
OF_EACH_LANE: Final = 10_000
ENTRIES: Final = 100_000


class Partitions(Reads):
    """Implements engine.partitions.PartitionStore."""

    def partitions(self, queue_id: str, *, after: str | None = None, limit: int) -> list[Row]:
        """The queue's partitions by key."""
        bounds = {"lanes": LANES, "each": OF_EACH_LANE, "most": ENTRIES}
        return self._dicts("stats/partitions", {"queue_id": queue_id, "after": after, "limit": limit, **bounds})

    def queue_id(self, project_id: str, name: str) -> str | None:
        row = self._row("queues/list", {"project_id": project_id, "name": name, "after": None, "limit": 1})
        return row[0] if row else None

    def weigh_partition(self, queue_id: str, partition_key: str, weight: int) -> int | None:
        row = self._row("queues/weigh_partition", {"queue_id": queue_id, "partition_key": partition_key, "weight": weight})
        return row[0] if row else None
