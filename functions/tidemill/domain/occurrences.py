"""Which occurrences of a schedule exist: one pure decision per schedule and scheduler pass.

    missed   instants before now that nobody has decided about: `on_missed` keeps none, the latest, or the latest few
    due      what it keeps; an instant that is met with an unfinished predecessor is `overlap`'s
    ahead    instants of the next seconds, made ready so that a worker starts them on time although passes are a minute apart

All instants come from the timetable, but the stored `next_run_at` counts as one whatever the timetable says. Bounded for any
absence: a year of missed minutes costs as much as a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tidemill.domain.schedule import MICROSECOND, OnMissed, Overlap, Spec
from tidemill.domain.templates import instant_text

if TYPE_CHECKING:
    from tidemill.domain.cron import Timetable

LISTED: Final = 100
GRACE: Final = timedelta(seconds=120)
"""With `on_missed: skip`, how late the latest instant may be and still count as met: two passes of a minute."""

Regard = Literal["none", "wait", "cancel"]
_REGARDS: Final[dict[Overlap, Regard]] = {Overlap.BUFFER_ONE: "wait", Overlap.CANCEL_RUNNING: "cancel"}


class Fire(NamedTuple):
    """An occurrence to make. `regard`: what it has to do with an unfinished predecessor."""

    nominal_at: datetime
    regard: Regard = "none"
    reason: str | None = None


class Skip(NamedTuple):
    """Occurrences that will not be, told by the last of them."""

    nominal_at: datetime
    reason: str


@dataclass(slots=True)
class Plan:
    """What to do, and the first instant that is left undecided. `is_complete` False: more of it is due now."""

    fires: list[Fire] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    next_run_at: datetime | None = None
    is_complete: bool = True


def plan(
    spec: Spec, timetable: Timetable, *, next_run_at: datetime, now: datetime, ahead: timedelta, unfinished: int = 0, most: int = 100
) -> Plan:
    """Decides about every instant from `next_run_at` to `now` + `ahead`, making at most `most` occurrences.

    `unfinished`: occurrences of this schedule that have not ended, those made ready ahead included.
    """
    made = Plan()
    due = _kept(spec, timetable, next_run_at, now, made.skips)
    fires = _met(spec.overlap, due, unfinished, now, made.skips)
    upcoming = next_run_at if next_run_at > now else spec.first_run(timetable, now)
    if len(fires) <= most:
        upcoming = _look_ahead(spec, timetable, upcoming, now + ahead, unfinished + len(fires), most + 1 - len(fires), fires)
    if len(fires) > most:
        made.fires, made.next_run_at, made.is_complete = fires[:most], fires[most].nominal_at, False
    else:
        made.fires, made.next_run_at = fires, upcoming
    return made


def _kept(spec: Spec, timetable: Timetable, first: datetime, now: datetime, skips: list[Skip]) -> list[datetime]:
    """The instants from `first` to `now` that `on_missed` keeps, earliest first; the others are told in `skips`."""
    last = now if spec.ends_at is None else min(now, spec.ends_at - MICROSECOND)
    if first > last:
        return []
    keep = spec.backfill_limit if spec.on_missed is OnMissed.BACKFILL else 1
    most = max(keep, LISTED)
    listed = [first, *timetable.between(first, last, most)]
    if len(listed) <= most:
        kept, missed, count = listed[-keep:], listed[:-keep], f"{len(listed) - keep}"
    else:
        kept = _latest(timetable, first, last, keep)
        missed = [first, timetable.previous_before(kept[0]) or first]
        count = f"more than {most - keep}"
    if spec.on_missed is OnMissed.SKIP and now - kept[-1] > GRACE:
        missed, kept = [*missed, *kept], []
        count = f"{len(listed)}" if len(listed) <= most else f"more than {most}"
    if missed:
        skips.append(Skip(missed[-1], "missed" if len(missed) == 1 else f"missed: {count} from {instant_text(missed[0])} on"))
    return kept


def _latest(timetable: Timetable, first: datetime, last: datetime, count: int) -> list[datetime]:
    """The last `count` instants up to `last`, earliest first; there are more than that from `first` on."""
    found: list[datetime] = []
    before = last + MICROSECOND
    while len(found) < count and (instant := timetable.previous_before(before)) is not None and instant > first:
        found.append(instant)
        before = instant
    return found[::-1] or [first]


def _met(overlap: Overlap, due: Sequence[datetime], unfinished: int, now: datetime, skips: list[Skip]) -> list[Fire]:
    """The kept instants that become jobs although earlier ones may be unfinished; the others are told in `skips`."""
    chosen, left, why = list(due), list[datetime](), ""
    if overlap is Overlap.CANCEL_RUNNING:
        chosen, left, why = list(due[-1:]), list(due[:-1]), "a later one takes its place"
    elif overlap is not Overlap.ALLOW:
        room = _room(overlap, unfinished)
        why = "the previous one is unfinished" if overlap is Overlap.SKIP else "the previous one is unfinished and one waits already"
        chosen, left = list(due[:room]), list(due[room:])
    if left:
        skips.append(Skip(left[-1], why if len(left) == 1 else f"{why}: {len(left)} from {instant_text(left[0])} on"))
    fires = list[Fire]()
    for instant in chosen:
        busy = unfinished + len(fires) > 0
        late = f"late by {int((now - instant).total_seconds())} s" if now - instant > GRACE else None
        fires.append(Fire(instant, _REGARDS.get(overlap, "none") if busy else "none", late))
    return fires


def _look_ahead(
    spec: Spec, timetable: Timetable, upcoming: datetime | None, until: datetime, unfinished: int, room: int, fires: list[Fire]
) -> datetime | None:
    """Adds to `fires` what is made ready ahead, from `upcoming` on; the first instant left undecided.

    `skip` and `cancel_running` leave it to the moment itself unless the schedule is at rest, and then go ahead by one.
    `buffer_one` may go ahead by the one that waits: it starts on its second if its predecessor has ended by then.
    """
    if upcoming is None or (spec.ends_at is not None and upcoming >= spec.ends_at):
        return None
    room = room if spec.overlap is Overlap.ALLOW else min(room, _room(spec.overlap, unfinished))
    if upcoming > until or room == 0:
        return upcoming
    last = until if spec.ends_at is None else min(until, spec.ends_at - MICROSECOND)
    for instant in [upcoming, *timetable.between(upcoming, last, room - 1)]:
        fires.append(Fire(instant, "wait" if unfinished and spec.overlap is Overlap.BUFFER_ONE else "none"))
        unfinished += 1
    return spec.first_run(timetable, fires[-1].nominal_at)


def _room(overlap: Overlap, unfinished: int) -> int:
    """How many more may be unfinished at a time; `allow` has no bound."""
    return max(0, (2 if overlap is Overlap.BUFFER_ONE else 1) - unfinished)
