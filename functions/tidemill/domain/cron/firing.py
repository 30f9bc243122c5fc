"""When the wall clock's matches really happen: local minutes laid over a zone's stretches of constant offset.

Within one stretch, local time is UTC plus a constant, so every match there is one subtraction away (R2). What is
peculiar happens at the changes between stretches, and only for fixed-time schedules (R1):

    clocks go forward   local minutes between the two offsets exist in no stretch: `on_gap` fires once at the change or not
    clocks go back      local minutes between the two offsets exist in both stretches: `on_fold` drops them from one

Matches are visited in order, days without one are skipped by calendar, and stretches without one are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.domain.cron.calendar import Calendar
from tidemill.domain.cron.choices import OnFold, OnGap
from tidemill.domain.cron.rule import DAY
from tidemill.domain.cron.zones import FIRST_INSTANT, LAST_INSTANT, Segment, Zone

MAX_OFFSET = 26 * 3600  # RFC 9636 bounds offsets to less than 26 hours


@dataclass(frozen=True, slots=True)
class Firing:
    """All fires of a calendar in a zone. Instants are whole epoch seconds."""

    calendar: Calendar
    zone: Zone
    is_fixed_time: bool
    on_gap: OnGap
    on_fold: OnFold

    def ascending(self, first: int, last: int) -> Iterator[int]:
        """Fires from `first` to `last`, both included, earliest first; each instant once (R4)."""
        resume, last = max(first, FIRST_INSTANT), min(last, LAST_INSTANT)
        day = self.calendar.first_day((resume - MAX_OFFSET) // DAY)
        while day is not None:
            resume = max(resume, day * DAY - MAX_OFFSET)
            if resume > last:
                return
            segment = self.zone.segment(resume)
            if segment.start < day * DAY - MAX_OFFSET and (day + 1) * DAY + MAX_OFFSET < segment.end:
                # Far from any change, as nearly all days are: the shortest way, which keeps sparse expressions quick.
                midnight = day * DAY - segment.offset
                for second in self.calendar.seconds_of_day:
                    if resume <= midnight + second <= last:
                        yield midnight + second
                resume = max(resume, midnight + DAY)
                day = self.calendar.first_day(day + 1)
            else:
                yield from self._in_segment(segment, resume, last)
                resume = segment.end
                day = self.calendar.first_day((resume + min(segment.offset, segment.following)) // DAY)

    def descending(self, last: int, first: int) -> Iterator[int]:
        """The same fires, latest first."""
        first, resume = max(first, FIRST_INSTANT), min(last, LAST_INSTANT)
        while resume >= first:
            segment = self.zone.segment(resume)
            yield from self._in_segment_backwards(segment, first, resume)
            day = self.calendar.last_day((segment.start + max(segment.before, segment.offset)) // DAY)
            if day is None:
                return
            resume = min(segment.start - 1, (day + 1) * DAY + MAX_OFFSET)

    def _in_segment(self, segment: Segment, first: int, last: int) -> Iterator[int]:
        low, high, fires_at_start = self._local_bounds(segment, first, last)
        if fires_at_start:
            yield segment.start
        for local in self.calendar.matching_seconds(low, high):
            yield local - segment.offset

    def _in_segment_backwards(self, segment: Segment, first: int, last: int) -> Iterator[int]:
        low, high, fires_at_start = self._local_bounds(segment, first, last)
        for local in self.calendar.matching_seconds_backwards(low, high):
            yield local - segment.offset
        if fires_at_start:
            yield segment.start

    def _local_bounds(self, segment: Segment, first: int, last: int) -> tuple[int, int, bool]:
        """Between which local seconds this stretch fires, and whether it fires at its start for the gap before it.

        Left out are the seconds that the fold policy leaves to a neighbour, and a match that falls onto the gap's fire.
        """
        low, high = segment.start + segment.offset, segment.end + segment.offset
        fires_at_start = False
        if self.is_fixed_time:
            if self.on_fold is OnFold.FIRST and segment.before > segment.offset:
                low = segment.start + segment.before
            if self.on_fold is OnFold.SECOND and segment.following < segment.offset:
                high = segment.end + segment.following
            if self.on_gap is OnGap.FIRE_AFTER and segment.before < segment.offset and first <= segment.start <= last:
                fires_at_start = self.calendar.has_match(segment.start + segment.before, low)
        low = max(low + fires_at_start, first + segment.offset)
        return low, min(high, last + segment.offset + 1), fires_at_start
