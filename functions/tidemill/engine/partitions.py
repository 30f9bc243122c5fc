"""Partitions: how a queue's service is shared between them."""

from __future__ import annotations

from typing import Protocol

from tidemill.domain.errors import NotFound


class PartitionStore(Protocol):
    """Sets weights."""

    def queue_id(self, project_id: str, name: str) -> str | None:
        """The queue's id, if the project has it."""

    def weigh_partition(self, queue_id: str, partition_key: str, weight: int) -> int | None:
        """The weight before (None: it had none), once the new one holds; waits for the claim that is at the queue."""


def weigh(store: PartitionStore, project_id: str, queue: str, partition_key: str, weight: int) -> int:
    """The weight that the partition had; from now on it is `weight`. NotFound without the queue.

    Only claims write partitions, under the queue's lock; this takes the same lock, and waits for it.
    """
    queue_id = store.queue_id(project_id, queue)
    if queue_id is None:
        raise NotFound("queue", queue)
    return store.weigh_partition(queue_id, partition_key, weight) or 1
