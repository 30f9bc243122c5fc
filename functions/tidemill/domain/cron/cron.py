"""A cron expression in a time zone: parse once, then ask when it fires."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import TypeVar

from tidemill.domain.cron import words
from tidemill.domain.cron.choices import OnFold, OnGap
from tidemill.domain.cron.errors import CronError
from tidemill.domain.cron.fields import Expression, read_expression
from tidemill.domain.cron.firing import Firing
from tidemill.domain.cron.timetable import EPOCH, Transition, from_seconds, require_aware, seconds_ceiling, seconds_floor
from tidemill.domain.cron.zones import LAST_INSTANT, Zone, load_zone, zone_data_release

HORIZON_YEARS = 41  # the longest gap of a legal date is 40 years: a 29 February on a given weekday around 2100
_HORIZON = HORIZON_YEARS * 366 * 86_400
_Policy = TypeVar("_Policy", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Cron:
    """A legal expression, its zone and its policies. Immutable, cheap to make again, a `Timetable`."""

    expression: Expression
    zone: Zone
    on_gap: OnGap
    on_fold: OnFold

    @property
    def text(self) -> str:
        """The five fields in lower case with single blanks, aliases resolved; equal text means equal fires."""
        return self.expression.text

    @property
    def timezone(self) -> str:
        """The IANA name of the zone."""
        return self.zone.name

    def next_after(self, after: datetime) -> datetime | None:
        """The first fire strictly later than `after` (R5), or None when none comes within 41 years."""
        start = seconds_floor(require_aware("after", after)) + 1
        found = next(self._firing().ascending(start, start + _HORIZON), None)
        return None if found is None else from_seconds(found)

    def previous_before(self, before: datetime) -> datetime | None:
        """The last fire strictly earlier than `before`, or None when none lies within 41 years."""
        end = seconds_ceiling(require_aware("before", before)) - 1
        found = next(self._firing().descending(end, end - _HORIZON), None)
        return None if found is None else from_seconds(found)

    def between(self, start: datetime, end: datetime, limit: int) -> list[datetime]:
        """At most `limit` fires later than `start` and not later than `end`, earliest first.

        Open at the start and closed at the end, so that adjoining windows share no fire and lose none.
        """
        first = seconds_floor(require_aware("start", start)) + 1
        last = seconds_floor(require_aware("end", end))
        return [from_seconds(fire) for fire in islice(self._firing().ascending(first, last), limit)]

    def upcoming(self, after: datetime, n: int) -> list[datetime]:
        """The next `n` fires strictly later than `after`; fewer where the calendar ends with the year 9999."""
        return self.between(after, from_seconds(LAST_INSTANT), n)

    def describe(self) -> str:
        """What it means in plain English, with OR or AND of the day fields and, where clocks still change, what happens then."""
        text = f"{words.describe_fields(self.expression)}, {self.zone.name} time."
        release_year = seconds_floor(EPOCH.replace(year=int(zone_data_release()[:4])))
        if self.zone.change_after(release_year) is not None:
            text += f" {words.describe_changes(self.expression, self.on_gap, self.on_fold)}"
        return text

    def transitions(self, after: datetime, n: int) -> list[Transition]:
        """The next `n` clock changes of the zone strictly later than `after`; empty for zones that change no more."""
        found: list[Transition] = []
        change = self.zone.change_after(seconds_floor(require_aware("after", after)))
        while change is not None and len(found) < n:
            at, before, later = from_seconds(change.at), *(timedelta(seconds=s) for s in (change.before, change.after))
            local = at.replace(tzinfo=None)
            found.append(Transition(at, "gap" if later > before else "fold", before, later, local + before, local + later))
            change = self.zone.change_after(change.at)
        return found

    def _firing(self) -> Firing:
        expression = self.expression
        return Firing(expression.calendar, self.zone, expression.is_fixed_time, self.on_gap, self.on_fold)


def parse(
    expression: str,
    timezone: str = "UTC",
    *,
    on_gap: str = OnGap.FIRE_AFTER,
    on_fold: str = OnFold.FIRST,
    after: datetime | None = None,
) -> Cron:
    """The Cron that `expression` means in `timezone`, an IANA name. Raises CronError with field, part, reason and hint.

    Dates that no year has are always refused. Pass `after`, the moment of creation, to refuse also what the zone itself
    rules out for 41 years, such as a wildcard hour that exists only inside a yearly gap (R6).
    """
    cron = Cron(
        read_expression(expression),
        load_zone(timezone),
        _policy("on_gap", on_gap, OnGap),
        _policy("on_fold", on_fold, OnFold),
    )
    if after is not None and cron.next_after(after) is None:
        reason = f"never comes: the zone's clocks jump over every match of the next {HORIZON_YEARS} years"
        raise CronError("hour", None, reason, "choose an hour outside of the yearly clock change")
    return cron


def _policy(field: str, value: str, kind: type[_Policy]) -> _Policy:
    try:
        return kind(value)
    except ValueError:
        raise CronError(field, value, "is not a policy", f"write one of {', '.join(kind)}") from None
