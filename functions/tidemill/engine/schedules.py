"""What is done to a schedule: put, edit, pause, resume, trigger, delete, and read.

None of them fires anything by itself: what was made ready ahead is taken back, and the next occurrence is reckoned from now.
Lock order: schedule → entries → jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from tidemill.domain.cron import Transition, zone_data_release
from tidemill.domain.errors import Fault, Invalid, NotFound, Unavailable
from tidemill.domain.jobs import Enqueued
from tidemill.domain.keys import canonical_json
from tidemill.domain.schedule import Schedule, Spec, anchor_of, check
from tidemill.engine.enqueue import enqueue
from tidemill.engine.occurrence import job_of, noted, take_back
from tidemill.engine.schedule_needs import Known
from tidemill.engine.schedule_store import Event, ScheduleStore

EVENTS_KEPT = 100
TRIES = 3
AT_ONCE = 250


class Put(NamedTuple):
    """A schedule after an upsert, and what that did: created, changed, or neither."""

    schedule: Schedule
    created: bool
    changed: bool


class Preview(NamedTuple):
    """When it fires, what that means in words, and the next clock changes of its zone."""

    fires: list[datetime]
    description: str
    transitions: list[Transition]


def put(
    store: ScheduleStore,
    project_id: str,
    name: str,
    spec: Spec,
    *,
    new_id: Callable[[], str],
    declared_by: str | None = None,
    now: datetime | None = None,
) -> Put:
    """Creates the schedule, or makes it what `spec` says. An unchanged one keeps its phase and is not written at all.

    A change takes back what was made ready and reckons from now; `every_ms` keeps its phase unless it changes itself.
    A schedule in error starts again. Invalid: nothing is stored.
    """
    spec = _completed(spec)
    for _ in range(TRIES):
        with store.transaction():
            at = store.clock(now=now)
            before = store.lock_schedule(project_id, name)
            if before is None:
                made = _new(spec, project_id, name, new_id(), declared_by, at)
                if not store.create_schedule(made, Known(store, project_id).needed(made, at)):
                    continue  # another one has come in between: look again
                return Put(_seen(store, project_id, name, now), created=True, changed=True)
            changed = _replace(store, before, spec, declared_by, at)
        return Put(_seen(store, project_id, name, now), created=False, changed=changed)
    raise Unavailable(f"schedule {name} came and went while it was put: try again")


def edit(store: ScheduleStore, project_id: str, name: str, change: Callable[[Spec], Spec], *, now: datetime | None = None) -> Schedule:
    """The schedule with `change` applied to what is stored. Invalid or NotFound: nothing is changed."""
    with store.transaction():
        before = _locked(store, project_id, name)
        wanted = change(before.spec)
        _refuse_lost([field for field in before.lost if wanted.job.get(field) is None])
        _replace(store, before, _completed(wanted), None, store.clock(now=now))
    return _seen(store, project_id, name, now)


def pause(store: ScheduleStore, project_id: str, name: str, *, note: str | None = None, now: datetime | None = None) -> Schedule:
    """Fires no more until it is resumed; what was made ready is taken back. A paused one stays as it is."""
    with store.transaction():
        before = _locked(store, project_id, name)
        if before.is_active:
            at = store.clock(now=now)
            take_back(store, [before], starting=True, reason="schedule_paused", now=at)
            _move(store, before, is_active=False, next_run_at=None, note=note, at=at)
    return _seen(store, project_id, name, now)


def resume(store: ScheduleStore, project_id: str, name: str, *, now: datetime | None = None) -> Schedule:
    """Fires again, first at the next instant from now on. An active one stays as it is, unless it is in error."""
    with store.transaction():
        before = _locked(store, project_id, name)
        if not before.is_active or before.error is not None:
            at = store.clock(now=now)
            _move(store, before, is_active=True, next_run_at=before.spec.first_run(before.timetable(), at), note=None, at=at)
    return _seen(store, project_id, name, now)


def delete(store: ScheduleStore, project_id: str, name: str, *, now: datetime | None = None) -> None:
    """Removes the schedule and its events; what was made ready is cancelled, jobs whose instant has come stay."""
    with store.transaction():
        before = _locked(store, project_id, name)
        take_back(store, [before], starting=True, reason="schedule_deleted", now=store.clock(now=now))
        store.delete_schedule(before.id)


def trigger(store: ScheduleStore, project_id: str, name: str, *, now: datetime | None = None) -> Enqueued:
    """One job of the schedule now, beside its occurrences: neither phase nor pause nor overlap has a say. Invalid if it cannot be made."""
    with store.transaction():
        schedule = _locked(store, project_id, name)
        at = store.clock(now=now)
        _refuse_lost(schedule.lost)
        made = enqueue(store, project_id, [job_of(schedule, at, is_occurrence=False)], now=now)[0]
        reason = f"by hand; job {made.job_id} answered for its unique key" if made.deduplicated else "by hand"
        noted(store, [Event(schedule.id, at, "skipped" if made.deduplicated else "fired", reason, made.job_id)], keep=EVENTS_KEPT, now=now)
    return made


def show(store: ScheduleStore, project_id: str, name: str, *, now: datetime | None = None) -> Schedule:
    """The schedule as a caller sees it."""
    return _seen(store, project_id, name, now)


def events(store: ScheduleStore, project_id: str, name: str) -> list[Event]:
    """The last 100, newest first."""
    return store.schedule_events(_seen(store, project_id, name, None).id, EVENTS_KEPT)


def preview(spec: Spec, *, anchor: datetime, after: datetime, n: int, transitions: int = 4) -> Preview:
    """The next `n` instants later than `after` within the schedule's period. CronError for what cannot be one."""
    timetable = spec.timetable(anchor, after=after)
    first = spec.first_run(timetable, after)
    fires = [first, *timetable.upcoming(first, n - 1)] if first is not None else []
    if spec.ends_at is not None:
        fires = [instant for instant in fires if instant < spec.ends_at]
    return Preview(fires, timetable.describe(), timetable.transitions(after, transitions))


def sync(
    store: ScheduleStore,
    project_id: str,
    declared_by: str,
    specs: Mapping[str, Spec],
    *,
    new_id: Callable[[], str],
    now: datetime | None = None,
) -> Mapping[str, int]:
    """Upserts what a program declares and pauses, with a note, what it declared once and no more; never deletes.

    One that was paused for that reason fires again when it is declared again; a pause by hand stays.
    """
    counts = {"created": 0, "changed": 0, "paused": 0}
    note = f"no longer declared by {declared_by}"
    names = sorted(specs)
    for start in range(0, len(names), AT_ONCE):
        part = {name: _completed(specs[name]) for name in names[start : start + AT_ONCE]}
        with store.transaction():
            at = store.clock(now=now)
            known = Known(store, project_id)
            stored = store.lock_schedules(project_id, list(part))
            known.check([_new(spec, project_id, name, "", declared_by, at) for name, spec in part.items()], at)
            for name, spec in part.items():
                before = stored.get(name)
                if before is None:
                    made = _new(spec, project_id, name, new_id(), declared_by, at)
                    if not store.create_schedule(made, known.needed(made, at)):
                        raise Unavailable(f"schedule {name} was created while it was declared: try again")
                    counts["created"] += 1
                    continue
                counts["changed"] += _replace(store, before, spec, declared_by, at, known)
                is_active = before.is_active if spec.is_paused is None else not spec.is_paused
                if not is_active and before.note == note:
                    resume(store, project_id, name, now=now)
    for name in store.undeclared_schedules(project_id, declared_by, list(specs), limit=1_000):
        pause(store, project_id, name, note=note, now=now)
        counts["paused"] += 1
    return counts


def _new(spec: Spec, project_id: str, name: str, schedule_id: str, declared_by: str | None, at: datetime) -> Schedule:
    anchor = anchor_of(spec, None, now=at)
    first = spec.first_run(check(spec, anchor=anchor, now=at), at)
    return Schedule(
        id=schedule_id, project_id=project_id, name=name, spec=spec, is_active=not spec.is_paused, anchor_at=anchor,
        next_run_at=None if spec.is_paused else first, last_run_at=None, zone_data_release=zone_data_release(), declared_by=declared_by,
        error=None, note=None, created_at=at, updated_at=at,
    )  # fmt: skip


def _replace(store: ScheduleStore, before: Schedule, spec: Spec, declared_by: str | None, at: datetime, known: Known | None = None) -> bool:
    """True if the stored schedule differs from `spec`, or was in error, and has been written."""
    is_active = before.is_active if spec.is_paused is None else not spec.is_paused
    if before.error is None and not before.lost and is_active == before.is_active and _same(before.spec, spec):
        if declared_by is not None and declared_by != before.declared_by:
            store.declare_schedule(before.id, declared_by)
        return False
    anchor = anchor_of(spec, before, now=at)
    first = spec.first_run(check(spec, anchor=anchor, now=at), at)
    after = replace(
        before, spec=spec, is_active=is_active, anchor_at=anchor, next_run_at=first if is_active else None,
        zone_data_release=zone_data_release(), declared_by=declared_by or before.declared_by, updated_at=at,
    )  # fmt: skip
    needs = (known or Known(store, after.project_id)).needed(after, at)
    take_back(store, [before], starting=not is_active, reason="schedule_edited" if is_active else "schedule_paused", now=at)
    store.replace_schedule(after, needs)
    return True


def _move(store: ScheduleStore, before: Schedule, *, is_active: bool, next_run_at: datetime | None, note: str | None, at: datetime) -> None:
    store.move_schedule(
        before.id, is_active=is_active, next_run_at=next_run_at, release=zone_data_release() if is_active else before.zone_data_release,
        note=note, declared_by=None, now=at,
    )  # fmt: skip


def _completed(spec: Spec) -> Spec:
    """With the defaults of a job's fields and without those that say nothing."""
    given = {name: value for name, value in spec.job.items() if value is not None}
    return replace(spec, job={"queue": "default", "payload": {}, **given})


def _same(stored: Spec, spec: Spec) -> bool:
    mine, theirs = (replace(each, job={}, is_paused=None) for each in (stored, spec))
    return mine == theirs and canonical_json(dict(_completed(stored).job)) == canonical_json(dict(spec.job))


def _refuse_lost(lost: Sequence[str]) -> None:
    """Invalid if something is gone that its jobs need: nothing is put in its place silently."""
    if lost:
        raise Invalid(
            [Fault(("job", field), f"the {field.replace('_', ' ')} of this schedule is gone: name one that exists") for field in lost]
        )


def _locked(store: ScheduleStore, project_id: str, name: str) -> Schedule:
    found = store.lock_schedule(project_id, name)
    if found is None:
        raise NotFound("schedule", name)
    return found


def _seen(store: ScheduleStore, project_id: str, name: str, now: datetime | None) -> Schedule:
    found = store.schedules(project_id, name=name, after=None, limit=1, now=now)
    if not found:
        raise NotFound("schedule", name)
    return found[0]
