"""Expressions in plain English, so that a user sees what will happen before it does."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tidemill.domain.cron.choices import OnFold, OnGap
from tidemill.domain.cron.fields import Expression

_MOST_TIMES = 6
_MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_GAP = {
    OnGap.FIRE_AFTER: "A time skipped when clocks go forward fires once, right after the jump",
    OnGap.SKIP: "A time skipped when clocks go forward does not fire",
}
_FOLD = {
    OnFold.FIRST: "a time that comes twice when clocks go back fires at the first only",
    OnFold.SECOND: "a time that comes twice when clocks go back fires at the second only",
    OnFold.BOTH: "a time that comes twice when clocks go back fires at both",
}
_WILDCARD = "A time skipped when clocks go forward does not fire; a time that comes twice when clocks go back fires at both."
_UNITS = ((3_600_000, "hour"), (60_000, "minute"), (1_000, "second"), (1, "millisecond"))


def describe_fields(expression: Expression) -> str:
    """Times, days and months of an expression, without a full stop."""
    minutes, hours, _, months, _ = (sorted(values) for values in expression.values)
    text = _times(minutes, hours)
    days = _days(expression)
    if days != "every day" or len(hours) < 24:
        text += f" {days}"
    return text if len(months) == 12 else f"{text}, in {_listed(months, [_MONTHS[number - 1] for number in months])}"


def describe_changes(expression: Expression, on_gap: OnGap, on_fold: OnFold) -> str:
    """What it does at clock changes, as one sentence."""
    return f"{_GAP[on_gap]}; {_FOLD[on_fold]}." if expression.is_fixed_time else _WILDCARD


def describe_interval(every_ms: int) -> str:
    """A length of time in whole units, such as `1 minute and 30 seconds`; never in days, which differ in length."""
    parts: list[str] = []
    for size, unit in _UNITS:
        count, every_ms = divmod(every_ms, size)
        if count:
            parts.append(f"{count} {unit}{'s' * (count > 1)}")
    return _and(parts)


def _times(minutes: list[int], hours: list[int]) -> str:
    if len(minutes) * len(hours) <= _MOST_TIMES:
        return f"At {_and([f'{hour:02}:{minute:02}' for hour in hours for minute in minutes])}"
    step = _even_step(minutes, 60)
    if len(minutes) == 60:
        minute_text = "Every minute"
    elif step and len(minutes) > 2:
        minute_text = f"Every {step} minutes"
    else:
        minute_text = f"At {_counted('minute', minutes)}"
    if len(hours) == 24:
        return minute_text if minute_text.startswith("Every") else f"{minute_text} of every hour"
    return f"{minute_text} of {_counted('hour', hours)}"


def _days(expression: Expression) -> str:
    calendar = expression.calendar
    days, weekdays = sorted(calendar.days), sorted((number - 1) % 7 for number in calendar.weekdays)  # Monday first
    any_day, any_weekday = len(days) == 31, len(weekdays) == 7
    if (any_day and any_weekday) or (calendar.either and (any_day or any_weekday)):
        return "every day"
    in_month = f"{_counted('day', days)} of the month"
    names = [_WEEKDAYS[number] for number in weekdays]
    in_week = _listed(weekdays, names)
    if any_weekday:
        return f"on {in_month}"
    if any_day:
        return f"on {in_week}"
    if calendar.either:
        return f"on {in_month} OR on {in_week}, either is enough"
    return f"on {in_month} AND only when that is a {_and(names, last=' or ')}"


def _counted(noun: str, numbers: list[int]) -> str:
    return f"{noun}{'s' * (len(numbers) > 1)} {_listed(numbers, [str(number) for number in numbers])}"


def _listed(numbers: list[int], labels: list[str], *, last: str = " and ") -> str:
    """Labels in a row, runs of three and more neighbours as `first to last`."""
    starts = [0, *(at for at, (low, high) in enumerate(pairwise(numbers), 1) if high != low + 1)]
    parts: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        run = labels[start:end]
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run
    return _and(parts, last=last)


def _even_step(values: list[int], size: int) -> int | None:
    step = values[1] if len(values) > 1 else size
    return step if size % step == 0 and values == list(range(0, size, step)) else None


def _and(parts: Iterable[str], *, last: str = " and ") -> str:
    *most, final = parts
    return f"{', '.join(most)}{last}{final}" if most else final
