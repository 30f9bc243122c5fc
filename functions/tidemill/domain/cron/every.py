"""Interval schedules: one fire each `every_ms`, counted from an anchor in real time, indifferent to zones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemill.domain.cron.errors import CronError
from tidemill.domain.cron.timetable import EPOCH, Transition, require_aware
from tidemill.domain.cron.words import describe_interval

MIN_EVERY_MS = 1_000
MAX_EVERY_MS = 41 * 366 * 86_400_000  # R6: nothing within 41 years is never
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Every:
    """Fires at `anchor` plus every whole multiple of `every_ms`, before and after it; a `Timetable`.

    The anchor is the phase, not a start: bound it with the schedule's own `starts_at`. Raises CronError on a bad value.
    """

    every_ms: int
    anchor: datetime

    def __post_init__(self) -> None:
        if isinstance(self.every_ms, bool) or not isinstance(self.every_ms, int):
            raise CronError("every_ms", None, "must be a whole number of milliseconds", "write 60000 for a minute")
        if not MIN_EVERY_MS <= self.every_ms <= MAX_EVERY_MS:
            reason = f"must be between {MIN_EVERY_MS} and {MAX_EVERY_MS} milliseconds"
            raise CronError("every_ms", str(self.every_ms), reason, "write 60000 for a minute")
        if self.anchor.utcoffset() is None:
            raise CronError("anchor", None, "must carry an offset", "write it as UTC, such as 2027-01-01T00:00:00Z")

    def next_after(self, after: datetime) -> datetime | None:
        """The first fire strictly later than `after`; None only beyond the year 9999."""
        return self._fire(self._count(after) + 1)

    def previous_before(self, before: datetime) -> datetime | None:
        """The last fire strictly earlier than `before`; None only before the year 1."""
        return self._fire(self._count(before - _MICROSECOND) if before > _EARLIEST else None)

    def between(self, start: datetime, end: datetime, limit: int) -> list[datetime]:
        """At most `limit` fires later than `start` and not later than `end`, earliest first."""
        first = self._count(start) + 1
        last = min(self._count(end), first + limit - 1)
        fires = (self._fire(count) for count in range(first, last + 1))
        return [fire for fire in fires if fire is not None]

    def upcoming(self, after: datetime, n: int) -> list[datetime]:
        """The next `n` fires strictly later than `after`; fewer where the calendar ends with the year 9999."""
        return self.between(after, datetime.max.replace(tzinfo=UTC), n)

    def describe(self) -> str:
        """What it means in plain English."""
        return f"Every {describe_interval(self.every_ms)}, in real time, through all clock changes."

    def transitions(self, after: datetime, n: int) -> list[Transition]:  # noqa: ARG002 - as Timetable has it
        """Always empty: an interval has no zone."""
        return []

    def _count(self, moment: datetime) -> int:
        """How many whole intervals lie between the anchor and `moment`, rounded down."""
        return (require_aware("moment", moment) - self.anchor) // timedelta(milliseconds=self.every_ms)

    def _fire(self, count: int | None) -> datetime | None:
        if count is None:
            return None
        try:
            return (self.anchor - EPOCH + count * timedelta(milliseconds=self.every_ms)) + EPOCH
        except OverflowError:
            return None


_EARLIEST = datetime.min.replace(tzinfo=UTC)
