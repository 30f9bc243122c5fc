"""What a schedule may choose for the hours that the clocks skip or repeat. Loads nothing else of cron."""

from __future__ import annotations

from enum import StrEnum


class OnGap(StrEnum):
    """What a fixed-time schedule does with a local time that the clocks jump over."""

    FIRE_AFTER = "fire_after"
    SKIP = "skip"


class OnFold(StrEnum):
    """At which of its occurrences a fixed-time schedule fires when a local time comes twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"
