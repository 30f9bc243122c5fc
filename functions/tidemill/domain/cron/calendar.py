"""Which local days and minutes an expression means: the calendar half of cron, without any zone.

Local time is counted in seconds since 1970-01-01T00:00 on the wall clock, days in whole days since then. R3 of the cron
rules decides how the two day fields combine; `either` holds the outcome.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date

from tidemill.domain.cron.rule import DAY, DAYS_BEFORE_MONTH, EPOCH_ORDINAL, days_before_year, is_leap

FIRST_DAY = date.min.toordinal() - EPOCH_ORDINAL
LAST_DAY = date.max.toordinal() - EPOCH_ORDINAL
LONGEST = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Matching months (1-12), days of the month (1-31), weekdays (0 is Sunday) and seconds of the day, each ascending.

    `either`: a day matches when one of the two day fields does; otherwise both must.
    """

    months: tuple[int, ...]
    days: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    seconds_of_day: tuple[int, ...]
    _years: dict[tuple[int, bool], tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    def is_possible(self) -> bool:
        """False when no year has a matching day, such as 30 February."""
        return self.either or any(day <= LONGEST[month] for month in self.months for day in self.days)

    def first_day(self, first: int, last: int = LAST_DAY) -> int | None:
        """The first matching day from `first` to `last`, both included, or None; nothing lies outside the years 1 to 9999."""
        first, last = max(first, FIRST_DAY), min(last, LAST_DAY)
        if first > last:
            return None
        year = _year_of(first)
        new_year = days_before_year(year)
        while new_year <= last:
            leap = is_leap(year)
            days = self._days_of_year(new_year, leap)
            if days and new_year + days[-1] >= first:
                found = new_year + days[bisect_left(days, first - new_year)]
                return found if found <= last else None
            year, new_year = year + 1, new_year + 365 + leap
        return None

    def last_day(self, last: int, first: int = FIRST_DAY) -> int | None:
        """The last matching day from `first` to `last`, both included, or None."""
        first, last = max(first, FIRST_DAY), min(last, LAST_DAY)
        if first > last:
            return None
        year = _year_of(last)
        new_year = days_before_year(year)
        while True:
            days = self._days_of_year(new_year, is_leap(year))
            if days and new_year + days[0] <= last:
                found = new_year + days[bisect_right(days, last - new_year) - 1]
                return found if found >= first else None
            if new_year <= first:
                return None
            year, new_year = year - 1, new_year - 365 - is_leap(year - 1)

    def matching_seconds(self, low: int, high: int) -> Iterator[int]:
        """Matching local minutes in `low` <= minute < `high`, each as the second at which it begins, earliest first."""
        last = (high - 1) // DAY
        day = self.first_day(low // DAY, last)
        while day is not None:
            midnight = day * DAY
            for second in self._seconds_within(low - midnight, high - midnight):
                yield midnight + second
            day = self.first_day(day + 1, last)

    def matching_seconds_backwards(self, low: int, high: int) -> Iterator[int]:
        """The same, latest first."""
        first = low // DAY
        day = self.last_day((high - 1) // DAY, first)
        while day is not None:
            midnight = day * DAY
            for second in reversed(self._seconds_within(low - midnight, high - midnight)):
                yield midnight + second
            day = self.last_day(day - 1, first)

    def has_match(self, low: int, high: int) -> bool:
        """True when a matching local minute begins in `low` <= minute < `high`."""
        return next(self.matching_seconds(low, high), None) is not None

    def _seconds_within(self, low: int, high: int) -> tuple[int, ...]:
        seconds = self.seconds_of_day
        if low <= 0 and high >= DAY:
            return seconds
        return seconds[bisect_left(seconds, low) : bisect_left(seconds, high)]

    def _days_of_year(self, new_year: int, leap: bool) -> tuple[int, ...]:
        """Matching days of a year that begins on day `new_year`, counted from 0; one of 14 cases."""
        weekday = (new_year + 4) % 7  # 1970-01-01 was a Thursday; 0 is Sunday
        known = self._years.get((weekday, leap))
        if known is None:
            known = self._years[weekday, leap] = tuple(self._match_year(weekday, leap))
        return known

    def _match_year(self, weekday: int, leap: bool) -> Iterator[int]:
        for month in self.months:
            start = DAYS_BEFORE_MONTH[month] + (leap and month > 2)
            for number in range(LONGEST[month] - (month == 2 and not leap)):
                in_month, in_week = number + 1 in self.days, (weekday + start + number) % 7 in self.weekdays
                if (in_month or in_week) if self.either else (in_month and in_week):
                    yield start + number


def _year_of(day: int) -> int:
    return date.fromordinal(day + EPOCH_ORDINAL).year
