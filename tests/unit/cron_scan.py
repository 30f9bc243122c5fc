"""Fires found the slow way: look at every UTC minute and ask the standard library what the wall clock shows.

Shares nothing with the code under test: no parsing (an expression is made together with the values it means), no
arithmetic on offsets, zones through `ZoneInfo` (loaded from the pinned package, as the system's may be older).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from importlib import resources
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SIZES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


@dataclass(frozen=True)
class Meaning:
    """The text of an expression and the values of its five fields."""

    text: str
    values: tuple[frozenset[int], ...]

    @property
    def is_fixed_time(self) -> bool:
        """R1: neither the minute nor the hour field begins with a star."""
        minute, hour, *_ = self.text.split()
        return minute[0] != "*" and hour[0] != "*"

    @cached_property
    def is_either(self) -> bool:
        """R3: one matching day field is enough."""
        _, _, day, _, weekday = self.text.split()
        return day[0] != "*" and weekday[0] != "*"

    @property
    def is_possible(self) -> bool:
        """False when no day of a leap year has the date, such as 30 February."""
        _, _, days, months, _ = self.values
        leap_year = (datetime(2028, 1, 1, tzinfo=UTC) + DAY * count for count in range(366))
        return self.is_either or any(date.day in days and date.month in months for date in leap_year)

    def matches(self, local: datetime) -> bool:
        """R2 and R3 for one minute of the wall clock."""
        minutes, hours, days, months, weekdays = self.values
        if local.minute not in minutes or local.hour not in hours or local.month not in months:
            return False
        in_month, in_week = local.day in days, local.isoweekday() % 7 in weekdays
        return (in_month or in_week) if self.is_either else (in_month and in_week)


@lru_cache(maxsize=700)
def zone_info(name: str) -> ZoneInfo:
    """The zone, read by the standard library from the pinned package."""
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=64)
def wall_clock(name: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Each UTC minute from `start` to `end` with the naive local time that the zone shows then."""
    zone, minutes = zone_info(name), (end - start) // MINUTE
    instants = [start + MINUTE * count for count in range(minutes + 1)]
    return [(instant, instant.astimezone(zone).replace(tzinfo=None)) for instant in instants]


def scan(meaning: Meaning, name: str, start: datetime, end: datetime, *, on_gap: str, on_fold: str) -> list[datetime]:
    """The fires later than `start` and not later than `end`. Looks a day further on both sides for gaps and folds."""
    clock = wall_clock(name, start - DAY, end + DAY)
    if not meaning.is_fixed_time:
        return [instant for instant, local in clock if start < instant <= end and meaning.matches(local)]
    occurrences: dict[datetime, list[datetime]] = {}
    for instant, local in clock:
        if meaning.matches(local):
            occurrences.setdefault(local, []).append(instant)
    chosen = {"first": slice(0, 1), "second": slice(-1, None), "both": slice(None)}[on_fold]
    fires = {instant for instants in occurrences.values() for instant in instants[chosen]}
    if on_gap == "fire_after":
        for (_, before), (instant, after) in pairwise(clock):
            skipped = (before + MINUTE * count for count in range(1, (after - before) // MINUTE))
            if any(meaning.matches(local) for local in skipped):
                fires.add(instant)
    return sorted(fire for fire in fires if start < fire <= end)


@lru_cache(maxsize=20)
def clock_changes(name: str, first_year: int, last_year: int) -> list[datetime]:
    """The hours, in UTC, during which the zone's offset changes."""
    zone, at = zone_info(name), datetime(first_year, 1, 1, tzinfo=UTC)
    changes: list[datetime] = []
    while at.year <= last_year:
        if (at + HOUR).astimezone(zone).utcoffset() != at.astimezone(zone).utcoffset():
            changes.append(at)
        at += HOUR
    return changes
