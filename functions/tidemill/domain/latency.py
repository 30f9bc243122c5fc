"""Durations as counts in buckets of a quarter octave, and quantiles read from them: never off by more than 9 %."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PER_OCTAVE: Final = 4


def lower_ms(bucket: int) -> float:
    """Where a bucket begins, in ms; the first one at 0."""
    return 0.0 if bucket <= 0 else float(2.0 ** (bucket / PER_OCTAVE))


def upper_ms(bucket: int) -> float:
    """Where it ends."""
    return float(2.0 ** ((bucket + 1) / PER_OCTAVE))


def quantile_ms(counts: Mapping[int, int], share: float) -> float | None:
    """The duration that `share` (0 to 1) of all counted ones do not exceed, between its bucket's ends; None if nothing was counted."""
    total = sum(counts.values())
    if total == 0:
        return None
    wanted, below = share * total, 0
    for bucket in sorted(counts):
        count = counts[bucket]
        if count and below + count >= wanted:
            low, high = lower_ms(bucket), upper_ms(bucket)
            return low + (high - low) * max(0.0, wanted - below) / count
        below += count
    return upper_ms(max(counts))
