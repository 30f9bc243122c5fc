"""The expressions we accept (R6): five ASCII fields or a named alias, checked before any parser sees them.

croniter reads more than cron: a sixth field as seconds, `?`, `L`, `W`, `#`, `H`, reversed ranges that wrap, steps beyond
the field, and `R`, which draws a new random time at every computation. What passes here means one thing only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.domain.cron import dialects
from tidemill.domain.cron.errors import CronError

MAX_LENGTH = 256
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_BLANKS = re.compile(r"[ \t]+")


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five: its values run from `low` to `high`; `top` is the highest number that may be written."""

    name: str
    low: int
    high: int
    top: int
    names: dict[str, int]

    @property
    def size(self) -> int:
        """How many values the field has; a step must be smaller."""
        return self.high - self.low + 1


MINUTE = Field("minute", 0, 59, 59, {})
HOUR = Field("hour", 0, 23, 23, {})
DAY = Field("day-of-month", 1, 31, 31, {})
MONTH = Field("month", 1, 12, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
WEEKDAY = Field("day-of-week", 0, 6, 7, {name: number for number, name in enumerate(_WEEKDAYS)})  # 7 is Sunday too
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def canonical_fields(expression: str) -> tuple[str, ...]:
    """The five fields in lower case, aliases resolved and one-value ranges as a value. Raises CronError on anything else."""
    if len(expression) > MAX_LENGTH:
        reason = f"has {len(expression)} characters, the bound is {MAX_LENGTH}"
        raise CronError("expression", None, reason, "split it into several schedules")
    text = expression.strip(" \t")
    if not text:
        raise CronError("expression", None, "is empty", dialects.FIVE_FIELDS)
    if text.lower() in ALIASES:
        return tuple(ALIASES[text.lower()].split())
    fields = _BLANKS.split(text)
    _refuse_foreign(fields)
    wrapper = dialects.wrapper_hint(text.lower())
    if wrapper is not None:
        raise CronError("expression", fields[0], "is not a cron expression of five fields or an alias", wrapper)
    if len(fields) != len(FIELDS):
        reason = f"has {len(fields)} field{'s' * (len(fields) != 1)}, must have 5"
        part = fields[len(FIELDS)] if len(fields) > len(FIELDS) else None
        raise CronError("expression", part, reason, dialects.count_hint(text.lower().split()))
    return tuple(_canonical(field, text) for field, text in zip(FIELDS, fields, strict=True))


def _refuse_foreign(fields: list[str]) -> None:
    """Look-alike digits, other blanks, control characters: whatever is not printable ASCII."""
    for index, text in enumerate(fields):
        if not (text.isascii() and text.isprintable()):
            name = FIELDS[index].name if len(fields) == len(FIELDS) else "expression"
            raise CronError(name, text, "has a character that is not printable ASCII", dialects.FIVE_FIELDS)


def _canonical(field: Field, text: str) -> str:
    return ",".join(_canonical_term(field, term) for term in text.split(","))


def _canonical_term(field: Field, term: str) -> str:
    if not term:
        raise CronError(field.name, term, "has an empty list entry", "write values with one comma between them")
    body, *steps = term.lower().split("/")
    if len(steps) > 1:
        raise CronError(field.name, term, "has more than one '/'", "write one step, such as */5 or 10-30/5")
    step = f"/{_step(field, term, steps[0])}" if steps else ""
    if body == "*":
        return f"*{step}"
    low, *highs = body.split("-")
    if len(highs) > 1:
        raise CronError(field.name, term, "has more than one '-'", "write a range as low-high")
    first = _value(field, term, low)
    if not highs:
        if step and first > field.high:
            reason = "has a step that starts at 7, which can be read as Sunday or as the end of the week"
            raise CronError(field.name, term, reason, f"write 7 for Sunday alone, or 0{step}")
        return f"{first}{step}"
    last = _value(field, term, highs[0])
    if first > last:
        raise CronError(field.name, term, "has a range that runs backwards", _ascending(field, first, last, step))
    return f"{first}-{last}{step}" if first < last else f"{first}"


def _step(field: Field, term: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise CronError(field.name, term, "has a step that is not a whole number", dialects.term_hint(field.name, term.lower()))
    step = int(text)
    if not 1 <= step < field.size:
        reason = f"has a step that is not between 1 and {field.size - 1}"
        raise CronError(field.name, term, reason, "a step counts within the field; use every_ms for longer intervals")
    return step


def _value(field: Field, term: str, text: str) -> int:
    if text in field.names:
        return field.names[text]
    bound = f"must be between {field.low} and {field.top}"
    if field.names:
        bound += f" or a name such as {next(iter(field.names))}"
    if not _DIGITS.fullmatch(text):
        raise CronError(field.name, term, f"has something that is no value: it {bound}", dialects.term_hint(field.name, term.lower()))
    value = int(text)
    if not field.low <= value <= field.top:
        raise CronError(field.name, term, bound, dialects.range_hint(field.name, value))
    return value


def _ascending(field: Field, first: int, last: int, step: str) -> str:
    if step:
        return "ranges must ascend; list the values instead"
    if last == field.low == WEEKDAY.low and field is WEEKDAY:
        return f"ranges must ascend; Sunday at the end is 7: write {first}-7"
    if first == field.high:
        return f"ranges must ascend; write {first},{field.low}-{last}"
    return f"ranges must ascend; write {first}-{field.high},{field.low}-{last}"
