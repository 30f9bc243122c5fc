"""What every kind of timing answers, and how instants travel: aware datetimes outside, whole seconds inside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of the clocks: `kind` is `gap` (forward) or `fold` (back), the offsets are east of UTC, the locals naive."""

    at: datetime
    kind: str
    offset_before: timedelta
    offset_after: timedelta
    local_before: datetime
    local_after: datetime


class Timetable(Protocol):
    """A cron or an interval: when it fires. All datetimes given must be aware, all returned are UTC."""

    def next_after(self, after: datetime) -> datetime | None:
        """The first fire strictly later than `after` (R5), or None when none comes within 41 years."""
        ...

    def previous_before(self, before: datetime) -> datetime | None:
        """The last fire strictly earlier than `before`, or None when none lies within 41 years."""
        ...

    def between(self, start: datetime, end: datetime, limit: int) -> list[datetime]:
        """At most `limit` fires later than `start` and not later than `end`, earliest first."""
        ...

    def upcoming(self, after: datetime, n: int) -> list[datetime]:
        """The next `n` fires strictly later than `after`; fewer where the calendar ends with the year 9999."""
        ...

    def describe(self) -> str:
        """What it means in plain English."""
        ...

    def transitions(self, after: datetime, n: int) -> list[Transition]:
        """The next `n` clock changes of its zone strictly later than `after`."""
        ...


def require_aware(name: str, value: datetime) -> datetime:
    """`value`, or ValueError when it has no offset and so names no instant."""
    if value.utcoffset() is None:
        raise ValueError(f"{name} must be an aware datetime, got a naive one; add tzinfo=UTC")
    return value


def seconds_floor(value: datetime) -> int:
    """Whole epoch seconds, rounded down."""
    return (value - EPOCH) // timedelta(seconds=1)


def seconds_ceiling(value: datetime) -> int:
    """Whole epoch seconds, rounded up."""
    return -((EPOCH - value) // timedelta(seconds=1))


def from_seconds(seconds: int) -> datetime:
    """The UTC datetime of whole epoch seconds."""
    return EPOCH + timedelta(seconds=seconds)
