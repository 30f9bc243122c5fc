"""Which partitions of a queue are noisy: what the others' figures should be read without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

NOISY_JOBS: Final = 100
NOISY_TIMES: Final = 10


class PartitionLoad(NamedTuple):
    """How much of a partition waits for a worker, and its weight."""

    partition_key: str
    waiting: int
    weight: int


def noisy(loads: Sequence[PartitionLoad]) -> set[str]:
    """Those with over 100 waiting jobs, and for their weight over ten times as many as the middle one that waits (of two the lower).

    A partition that is alone disturbs nobody. If over half of them flood, that is the queue's load and none is noisy.
    """
    shares = sorted(load.waiting / load.weight for load in loads if load.waiting)
    if len(shares) < 2:
        return set()
    middle = shares[(len(shares) - 1) // 2]
    return {load.partition_key for load in loads if load.waiting > NOISY_JOBS and load.waiting / load.weight > NOISY_TIMES * middle}
