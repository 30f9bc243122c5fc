"""From checked text to the calendar it means. croniter does the expanding; it is imported when the first one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tidemill.domain.cron.calendar import Calendar
from tidemill.domain.cron.errors import CronError
from tidemill.domain.cron.grammar import DAY, FIELDS, Field, canonical_fields


@dataclass(frozen=True, slots=True)
class Expression:
    """A legal expression: its five canonical fields, the values of each, and what follows from the stars.

    `is_fixed_time`: neither the minute nor the hour field begins with a star (R1), so the gap and fold policies apply.
    """

    fields: tuple[str, ...]
    values: tuple[frozenset[int], ...]
    calendar: Calendar
    is_fixed_time: bool

    @property
    def text(self) -> str:
        """The canonical spelling: equal for expressions that differ only in case, blanks or an alias."""
        return " ".join(self.fields)


def read_expression(expression: str) -> Expression:
    """The meaning of `expression`. Raises CronError when it is not legal or names a date that no year has."""
    return _meaning(canonical_fields(expression))


@lru_cache(maxsize=2048)
def _meaning(fields: tuple[str, ...]) -> Expression:
    values = _expand(fields)
    minutes, hours, days, months, weekdays = values
    calendar = Calendar(
        months=tuple(sorted(months)),
        days=days,
        weekdays=weekdays,
        either=not (fields[2].startswith("*") or fields[4].startswith("*")),
        seconds_of_day=tuple(hour * 3600 + minute * 60 for hour in sorted(hours) for minute in sorted(minutes)),
    )
    if not calendar.is_possible():
        hint = "February has at most 29 days; April, June, September and November have 30"
        raise CronError(DAY.name, fields[2], "never comes: no month of the expression has such a day", hint)
    return Expression(fields, values, calendar, not (fields[0].startswith("*") or fields[1].startswith("*")))


def _expand(fields: tuple[str, ...]) -> tuple[frozenset[int], ...]:
    from croniter import croniter  # 50 ms, and most processes never parse an expression

    lists, _ = croniter.expand(" ".join(fields))
    return tuple(_values(field, listed) for field, listed in zip(FIELDS, lists, strict=True))


def _values(field: Field, listed: Sequence[int | str]) -> frozenset[int]:
    if "*" in listed:
        return frozenset(range(field.low, field.high + 1))
    return frozenset(int(value) for value in listed)
