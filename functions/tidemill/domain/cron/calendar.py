"""Which local days and minutes an expression means: the calendar half of cron, without any zone.

Local time is counted in seconds since 1970-01-01T00:00 on the wall clock, days in whole days since then. R3 of the cron
rules decides how the two day fields combine; `either` holds the outcome.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date

from tidemill.domain.cron.rule import DAY, EPOCH_ORDINAL

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
    _patterns: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    def is_possible(self) -> bool:
        """False when no year has a matching day, such as 30 February."""
        return self.either or any(day <= LONGEST[month] for month in self.months for day in self.days)

    def matching_days(self, first: int, last: int, *, backwards: bool = False) -> Iterator[int]:
        """Matching days from `first` to `last`, both included and within the years 1 to 9999, in the asked order."""
        first, last = max(first, FIRST_DAY), min(last, LAST_DAY)
        if first > last:
            return
        step = -1 if backwards else 1
        low, high = date.fromordinal(first + EPOCH_ORDINAL), date.fromordinal(last + EPOCH_ORDINAL)
        lowest, highest = (low.year, low.month), (high.year, high.month)
        for year in range(low.year, high.year + 1)[::step]:
            for month in self.months[::step]:
                if lowest <= (year, month) <= highest:
                    before = date(year, month, 1).toordinal() - EPOCH_ORDINAL - 1
                    for number in self._pattern(year, month)[::step]:
                        if first <= before + number <= last:
                            yield before + number

    def first_day(self, first: int) -> int | None:
        """The first matching day that is not before `first`, or None up to the end of the year 9999."""
        return next(self.matching_days(first, LAST_DAY), None)

    def last_day(self, last: int) -> int | None:
        """The last matching day that is not after `last`, or None down to the year 1."""
        return next(self.matching_days(FIRST_DAY, last, backwards=True), None)

    def matching_seconds(self, low: int, high: int, *, backwards: bool = False) -> Iterator[int]:
        """Matching local minutes in `low` <= minute < `high`, each as the second at which it begins."""
        seconds = self.seconds_of_day[::-1] if backwards else self.seconds_of_day
        for day in self.matching_days(low // DAY, (high - 1) // DAY, backwards=backwards):
            midnight = day * DAY
            if low <= midnight and midnight + DAY <= high:
                for second in seconds:
                    yield midnight + second
            else:
                for second in seconds:
                    if low <= midnight + second < high:
                        yield midnight + second

    def has_match(self, low: int, high: int) -> bool:
        """True when a matching local minute begins in `low` <= minute < `high`."""
        return next(self.matching_seconds(low, high), None) is not None

    def _pattern(self, year: int, month: int) -> tuple[int, ...]:
        first_weekday, length = monthrange(year, month)  # 0 is Monday
        known = self._patterns.get((first_weekday, length))
        if known is None:
            known = tuple(number for number in range(1, length + 1) if self._is_day(number, first_weekday + number))
            self._patterns[first_weekday, length] = known
        return known

    def _is_day(self, number: int, weekday: int) -> bool:
        in_month, in_week = number in self.days, weekday % 7 in self.weekdays
        return in_month or in_week if self.either else in_month and in_week
