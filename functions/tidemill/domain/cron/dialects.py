"""Which other scheduler's language a refused expression looks like, and how to say it in ours.

AWS cron has six fields with a year, a compulsory `?` and Sunday = 1; Quartz and Spring put seconds first; Jenkins has
`H`. Reading any of them silently would fire at the wrong time, so each is refused with the likely misunderstanding.
"""

from __future__ import annotations

import re

FIVE_FIELDS = "write five fields: minute hour day-of-month month day-of-week, or an alias such as @daily"
_EVERY = "use every_ms for an interval"
_WRAPPERS = (
    (re.compile(r"cron\("), f"looks like AWS EventBridge cron(...), which is not accepted; {FIVE_FIELDS}"),
    (re.compile(r"rate\(|@every\b|every\b"), f"looks like a rate (AWS rate(...), Go @every); {_EVERY}"),
    (re.compile(r"at\("), "looks like AWS at(...), a single moment; create a job with run_at instead"),
    (re.compile(r"(cron_)?tz="), "looks like a TZ= prefix; put the zone into timezone"),
    (re.compile(r"@reboot"), "looks like @reboot; there is no machine whose start could count"),
    (re.compile(r"r?/?p[t0-9]"), f"looks like an ISO 8601 duration; {_EVERY}"),
    (re.compile(r"@"), "the aliases are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually"),
)
_YEAR = re.compile(r"(19|20|21)[0-9]{2}(?![0-9])")
_FULL_NAME = re.compile(r"(sun|mon|tues|wednes|thurs|fri|satur)day|january|february|march|april|june|july|august|\w+ember|october")


def wrapper_hint(text: str) -> str | None:
    """A hint for text (in lower case) that is not fields at all, such as `rate(5 minutes)` or `@reboot`."""
    return next((hint for pattern, hint in _WRAPPERS if pattern.match(text)), None)


def count_hint(fields: list[str]) -> str:
    """A hint for a wrong number of fields (in lower case)."""
    if len(fields) < 5:
        return FIVE_FIELDS
    if len(fields) == 7:
        return f"looks like Quartz with seconds first and a year last; {FIVE_FIELDS}"
    if len(fields) > 7:
        return FIVE_FIELDS
    if _YEAR.match(fields[5]) or "?" in (fields[2], fields[4]):
        return f"looks like AWS cron with a year as sixth field and Sunday as 1; {FIVE_FIELDS}"
    return f"looks like seconds first (Quartz, Spring, node-cron); {FIVE_FIELDS}"


def term_hint(field: str, term: str) -> str:
    """A hint for a term (in lower case) that `field` cannot hold."""
    if "?" in term:
        return "looks like AWS or Quartz, where ? is compulsory and Sunday is 1; write * here, and Sunday is 0 or 7"
    if "#" in term:
        return "looks like AWS or Quartz for the nth weekday of a month, which is not supported"
    if re.match(r"h(\(|/|$)", term):
        return "looks like Jenkins H; write a fixed value, or use jitter_ms to spread load"
    if re.match(r"r(\(|/|$)", term):
        return "looks like croniter's random R, a new time at every look; write a fixed value, or use jitter_ms"
    if _FULL_NAME.search(term):
        return "names have three letters, such as mon or jan"
    if field == "day-of-month" and re.fullmatch(r"l(-[0-9]+)?|lw|[0-9]*w|w[0-9]+", term):
        return "looks like AWS or Quartz for the last day or the nearest weekday, which is not supported"
    if field == "day-of-week" and re.fullmatch(r"[0-7a-z]{0,3}l", term):
        return "looks like AWS or Quartz for the last weekday of a month, which is not supported"
    if "~" in term:
        return "looks like OpenBSD's random ~; write a fixed value, or use jitter_ms to spread load"
    return "a field is a list of *, value, low-high, each with an optional /step"


def range_hint(field: str, value: int) -> str:
    """A hint for a number outside of the field's bounds."""
    if field == "day-of-week":
        return "Sunday is 0 or 7, Monday is 1, Saturday is 6"
    if field == "hour" and value == 24:
        return "midnight is hour 0"
    if field == "minute" and value == 60:
        return "the full hour is minute 0"
    return "the order is minute hour day-of-month month day-of-week"
