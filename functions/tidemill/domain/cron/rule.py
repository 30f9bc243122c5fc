"""The yearly clock changes that a zone's footer promises for all time to come.

The last line of a TZif file is a POSIX TZ string (RFC 9636, section 3.3), such as `CET-1CEST,M3.5.0,M10.5.0/3`.
It says how the zone goes on after its last listed change. POSIX counts hours west of Greenwich; here, as everywhere
else in this package, offsets are seconds east.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

DAY = 86_400
EPOCH_ORDINAL = 719_163  # date(1970, 1, 1).toordinal()
DAYS_BEFORE_MONTH = (0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)"
_OFFSET = r"[+-]?\d{1,3}(?::\d\d){0,2}"
_FOOTER = re.compile(
    rf"{_NAME}(?P<standard>{_OFFSET})"
    rf"(?:{_NAME}(?P<summer>{_OFFSET})?,(?P<start>[^,]+),(?P<end>[^,]+))?",
    re.ASCII,
)


def days_before_year(year: int) -> int:
    """Days from 1970-01-01 to the first of January of `year`, negative before 1970; any year, not only 1 to 9999."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400 + 1 - EPOCH_ORDINAL


def is_leap(year: int) -> bool:
    """True when `year` has a 29 February in the Gregorian calendar."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


class Change(NamedTuple):
    """One instant at which a zone's offset changes. `at` is in epoch seconds, the offsets in seconds east of UTC."""

    at: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of summer time: `form` is M (month, week, weekday), J (day 1-365 that skips 29 February) or N (day 0-365)."""

    form: str
    numbers: tuple[int, ...]
    seconds: int

    def after_new_year(self, year: int) -> int:
        """Seconds of local time from the first of January of `year` to this edge; may leave the year."""
        if self.form == "N":
            day = self.numbers[0]
        elif self.form == "J":
            day = self.numbers[0] - 1 + (is_leap(year) and self.numbers[0] >= 60)
        else:
            day = self._nth_weekday(year)
        return day * DAY + self.seconds

    def _nth_weekday(self, year: int) -> int:
        month, week, weekday = self.numbers
        leap = is_leap(year)
        first = DAYS_BEFORE_MONTH[month] + (leap and month > 2)
        end = DAYS_BEFORE_MONTH[month + 1] + (leap and month >= 2)
        first_weekday = (days_before_year(year) + first + 4) % 7  # 1970-01-01 was a Thursday; 0 is Sunday
        day = first + (weekday - first_weekday) % 7 + (week - 1) * 7
        return day if day < end else day - 7  # week 5 means the last one


@dataclass(frozen=True, slots=True)
class Rule:
    """Standard and summer offset and the two edges of every year."""

    standard: int
    summer: int
    start: Edge
    end: Edge

    def changes(self, year: int) -> list[Change]:
        """The two changes of `year` in order of time."""
        base = days_before_year(year) * DAY
        begins = base + self.start.after_new_year(year) - self.standard
        ends = base + self.end.after_new_year(year) - self.summer
        both = [Change(begins, self.standard, self.summer), Change(ends, self.summer, self.standard)]
        return sorted(both, key=lambda change: change.at)

    def changes_about(self, year: int) -> list[Change]:
        """The six changes of `year` and its neighbours in order of time."""
        return [change for near in (year - 1, year, year + 1) for change in self.changes(near)]


def read_rule(footer: str) -> Rule | None:
    """The rule in a TZif footer, or None when the zone keeps its last offset for good. Raises ValueError on a bad one."""
    if not footer:
        return None
    match = _FOOTER.fullmatch(footer)
    if match is None:
        raise ValueError(f"zone footer {footer!r} is not a POSIX TZ string")
    if match["start"] is None:
        return None
    standard = -_seconds(match["standard"])
    summer = -_seconds(match["summer"]) if match["summer"] else standard + 3600
    rule = Rule(standard, summer, _edge(match["start"]), _edge(match["end"]))
    is_constant = standard == summer or rule.changes(2001)[-1].at == rule.changes(2002)[0].at  # all-year summer time
    return None if is_constant else rule


def _edge(text: str) -> Edge:
    day, _, time = text.partition("/")
    seconds = _seconds(time) if time else 2 * 3600
    if day[0] == "M":
        return Edge("M", tuple(int(number) for number in day[1:].split(".")), seconds)
    if day[0] == "J":
        return Edge("J", (int(day[1:]),), seconds)
    return Edge("N", (int(day),), seconds)


def _seconds(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")] + [0, 0]
    return sign * (parts[0] * 3600 + parts[1] * 60 + parts[2])
