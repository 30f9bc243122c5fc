"""Fire: occurrences become jobs. Each in the transaction that moves its schedule on, so that it exists exactly once.

A pass walks the due schedules in order, in transactions of at most 250 schedules and 1,000 jobs, and skips what another pass
holds. If a transaction fails, its schedules are taken one by one: the one that is at fault is marked, the others fire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from tidemill.domain.cron import CronError, zone_data_release
from tidemill.domain.errors import QueueFull, TidemillError
from tidemill.domain.jobs import Enqueued, JobSpec
from tidemill.domain.occurrences import Fire, Plan, plan
from tidemill.domain.schedule import MICROSECOND, Overlap, Schedule
from tidemill.engine.enqueue import enqueue
from tidemill.engine.occurrence import job_of, noted, take_back
from tidemill.engine.operate import cancel
from tidemill.engine.schedule_store import Advance, Cursor, Event, ScheduleStore
from tidemill.engine.schedules import EVENTS_KEPT
from tidemill.ports import Rolls

AHEAD: Final = timedelta(seconds=90)
SCHEDULES: Final = 250
JOBS: Final = 1_000
JOBS_PER_SCHEDULE: Final = 100
PAUSE_AFTER_ERROR: Final = timedelta(minutes=5)
"""How long a schedule rests whose jobs cannot be made. One whose timing is broken rests until it is edited or resumed."""
COUNTS: Final = ("schedules", "fired", "skipped", "broken", "recomputed")


class Firing:
    """One pass over all due schedules. `now`: a test's clock."""

    def __init__(self, store: ScheduleStore, *, roll: Rolls, now: datetime | None = None) -> None:
        self._store, self._roll, self._now = store, roll, now
        self._place: Cursor | None = None
        self._is_over = False
        self._failure: Exception | None = None
        self._release = zone_data_release()

    def step(self) -> Mapping[str, int]:
        """One transaction's work: counts of schedules looked at, jobs made, occurrences skipped, schedules found broken or reckoned
        anew for other zone data; `more` 1 while the pass has not seen all. What was no schedule's fault is raised last.
        """
        if self._is_over and self._failure is not None:
            raise self._failure
        counts = self._reckon_anew()
        if counts:
            return {**dict.fromkeys(COUNTS, 0), **counts, "more": 1}
        batch = _Batch(self._store, self._roll, self._now, self._release)
        try:
            with self._store.transaction():
                batch.run(self._place, None)
        except Exception:
            if not batch.found:
                raise
            batch = self._one_by_one(batch.found)
        self._place, self._is_over = batch.place, not batch.has_more
        return {**dict.fromkeys(COUNTS, 0), **batch.counts, "more": int(batch.has_more or self._failure is not None)}

    def _reckon_anew(self) -> Mapping[str, int]:
        """Schedules that were reckoned with other zone data: their next instant by the pinned one. Fires nothing."""
        with self._store.transaction():
            at, stale = self._store.stale_schedules(self._release, SCHEDULES, now=self._now)
            if at is None:
                return {}
            self._store.advance_schedules([_reckoned(self._store, schedule, at, self._release) for schedule in stale])
        return {"recomputed": len(stale)}

    def _one_by_one(self, found: Sequence[Schedule]) -> _Batch:
        """Each schedule of a transaction that failed in one of its own; those at fault are marked, the others fire."""
        total = _Batch(self._store, self._roll, self._now, self._release)
        for schedule in found:
            try:
                with self._store.transaction():
                    total.run(None, schedule.id)
            except Exception as error:  # noqa: BLE001 - told apart here
                blame = self._store.blames(error)
                if blame is None:
                    self._failure = error
                    continue
                with self._store.transaction():
                    total.run(None, schedule.id, blame=self._blame(schedule) or blame)
        total.place, total.has_more = _place(found[-1]), True
        return total

    def _blame(self, schedule: Schedule) -> str | None:
        """What is wrong with the shape of the schedule's jobs."""
        try:
            fault = self._store.job_fault(job_of(schedule, schedule.next_run_at or schedule.created_at))
        except Exception:  # noqa: BLE001 - whatever made it fail before
            return None
        return f"job.{fault}" if fault else None


class _Batch:
    """The due schedules of one transaction and what becomes of them."""

    def __init__(self, store: ScheduleStore, roll: Rolls, now: datetime | None, release: str) -> None:
        self._store, self._roll, self._now, self._release = store, roll, now, release
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        self.found: list[Schedule] = []
        self.place: Cursor | None = None
        self.has_more = False
        self._moves: list[Advance] = []
        self._events: list[Event] = []

    def run(self, after: Cursor | None, only: str | None, *, blame: str | None = None) -> None:
        """Takes the next due schedules (or `only` that one) and decides about each; `blame`: it is at fault, and not tried again."""
        self._moves, self._events = [], []
        ahead_ms = AHEAD // timedelta(milliseconds=1)
        if only is None:
            at, self.found = self._store.due_schedules(after, ahead_ms=ahead_ms, limit=SCHEDULES, now=self._now)
        else:
            at, self.found = self._store.due_schedule(only, ahead_ms=ahead_ms, now=self._now)
        if at is None:
            return
        busy = self._store.unfinished_occurrences([s.id for s in self.found if s.spec.overlap is not Overlap.ALLOW])
        plans: list[tuple[Schedule, Plan]] = []
        jobs, handled = 0, 0
        for schedule in self.found:
            if schedule.zone_data_release in (None, self._release):
                planned = self._planned(schedule, at, len(busy.get(schedule.id, ())), blame)
                if planned is not None:
                    if plans and jobs + len(planned.fires) > JOBS:
                        break
                    plans.append((schedule, planned))
                    jobs += len(planned.fires)
            handled += 1
        self._fire(plans, busy, at)
        self._store.advance_schedules(self._moves)
        noted(self._store, self._events, keep=EVENTS_KEPT, now=self._now)
        self._count(handled)
        is_complete = all(planned.is_complete for _, planned in plans)
        self.has_more = not is_complete or handled < len(self.found) or len(self.found) == SCHEDULES
        self.place = _place(self.found[handled - 1]) if is_complete else None

    def _count(self, handled: int) -> None:
        """Only once all is written: a transaction that fails has counted nothing."""
        self.counts["schedules"] += handled
        self.counts["broken"] += sum(event.kind == "error" for event in self._events)
        self.counts["fired"] += sum(event.kind == "fired" for event in self._events)
        self.counts["skipped"] += sum(event.kind == "skipped" for event in self._events)

    def _planned(self, schedule: Schedule, at: datetime, unfinished: int, blame: str | None) -> Plan | None:
        """None: the schedule is broken, which is noted."""
        assert schedule.next_run_at is not None
        try:
            timetable = schedule.timetable()
        except CronError as error:
            self._broken(schedule, at, error.detail, None)
            return None
        blame = blame or _blame(schedule)
        if blame is not None:
            self._broken(schedule, at, blame, schedule.spec.first_run(timetable, at + PAUSE_AFTER_ERROR))
            return None
        return plan(
            schedule.spec, timetable, next_run_at=schedule.next_run_at, now=at, ahead=AHEAD, unfinished=unfinished, most=JOBS_PER_SCHEDULE
        )

    def _broken(self, schedule: Schedule, at: datetime, message: str, next_run_at: datetime | None) -> None:
        self._moves.append(Advance(schedule.id, next_run_at, error=message, release=self._release))
        self._events.append(Event(schedule.id, schedule.next_run_at or at, "error", message))

    def _fire(self, plans: Sequence[tuple[Schedule, Plan]], busy: Mapping[str, Sequence[str]], at: datetime) -> None:
        wanted = [(schedule.id, fire.nominal_at) for schedule, planned in plans for fire in planned.fires]
        there = self._store.existing_occurrences(wanted) if wanted else set[tuple[str, datetime]]()
        self._cancel(plans, busy)
        made = self._made(plans, busy, there)
        for schedule, planned in plans:
            self._settle(schedule, planned, made, at)

    def _cancel(self, plans: Sequence[tuple[Schedule, Plan]], busy: Mapping[str, Sequence[str]]) -> None:
        """Asks the predecessors of those that take their place to stop. In job order, as everybody locks them."""
        asked = {
            (job_id, schedule.project_id)
            for schedule, planned in plans
            if any(fire.regard == "cancel" for fire in planned.fires)
            for job_id in busy.get(schedule.id, ())
        }
        for job_id, project_id in sorted(asked):
            try:
                cancel(self._store, project_id, job_id, roll=self._roll, reason="schedule_overlap", now=self._now)
            except TidemillError:
                continue  # it has ended meanwhile

    def _made(
        self, plans: Sequence[tuple[Schedule, Plan]], busy: Mapping[str, Sequence[str]], there: set[tuple[str, datetime]]
    ) -> Mapping[tuple[str, datetime], Enqueued]:
        """What the one way in made of each occurrence that does not exist yet."""
        wanted = [(s, fire) for s, planned in plans for fire in planned.fires if (s.id, fire.nominal_at) not in there]
        made: dict[tuple[str, datetime], Enqueued] = {}
        for project_id, group in groupby(sorted(wanted, key=_project), key=_project):
            items, jobs, before = list(group), list[JobSpec](), dict[str, str]()
            for schedule, fire in items:
                jobs.append(_job(schedule, fire, before.get(schedule.id), busy.get(schedule.id, ())))
                before[schedule.id] = _ref(schedule, fire)
            for (schedule, fire), result in zip(items, enqueue(self._store, project_id, jobs, atomic=False, now=self._now), strict=True):
                made[schedule.id, fire.nominal_at] = result
        return made

    def _settle(self, schedule: Schedule, planned: Plan, made: Mapping[tuple[str, datetime], Enqueued], at: datetime) -> None:
        events = [Event(schedule.id, skip.nominal_at, "skipped", skip.reason) for skip in planned.skips]
        fault, last = None, None
        for fire in planned.fires:
            result = made.get((schedule.id, fire.nominal_at))
            if result is None:
                events.append(Event(schedule.id, fire.nominal_at, "skipped", "exists already"))
            elif result.code == QueueFull.code:
                events.append(Event(schedule.id, fire.nominal_at, "skipped", result.message))
            elif result.code is not None:
                fault = f"job.{result.field}: {result.message}"
            elif result.deduplicated:
                events.append(Event(schedule.id, fire.nominal_at, "skipped", "a job holds its unique key", result.job_id))
            else:
                last = fire.nominal_at
                events.append(Event(schedule.id, fire.nominal_at, "fired", _told(fire), result.job_id))
        self._events += events
        if fault is not None:
            self._broken(schedule, at, fault, schedule.spec.first_run(schedule.timetable(), at + PAUSE_AFTER_ERROR))
        elif planned.next_run_at != schedule.next_run_at or events or schedule.error is not None or schedule.zone_data_release is None:
            self._moves.append(Advance(schedule.id, planned.next_run_at, last, release=self._release))


def _job(schedule: Schedule, fire: Fire, before: str | None, unfinished: Sequence[str]) -> JobSpec:
    """The job of an occurrence. `before`: the ref of the schedule's previous occurrence in the same call."""
    job: dict[str, Any] = dict(job_of(schedule, fire.nominal_at))
    if schedule.spec.overlap is Overlap.BUFFER_ONE:
        job["ref"] = _ref(schedule, fire)
    if fire.regard == "wait" and (unfinished or before):
        job["depends_on"] = [*unfinished, *([{"ref": before}] if before else [])]
        job["on_parent_failure"] = "run"
    return job


def _project(item: tuple[Schedule, Fire]) -> str:
    return item[0].project_id


def _ref(schedule: Schedule, fire: Fire) -> str:
    return f"{schedule.id}.{fire.nominal_at.timestamp()}"


def _reckoned(store: ScheduleStore, schedule: Schedule, at: datetime, release: str) -> Advance:
    """Where the schedule stands by the pinned zone data. What is overdue stays overdue; what was made ready and has no right to be goes."""
    spec, cursor = schedule.spec, schedule.next_run_at
    try:
        timetable = schedule.timetable()
    except CronError as error:
        return Advance(schedule.id, None, error=error.detail, release=release)
    if cursor is not None and cursor <= at:
        return Advance(schedule.id, spec.first_run(timetable, cursor - MICROSECOND), error=schedule.error, release=release)
    fresh = spec.first_run(timetable, at)
    if cursor is not None:
        ahead = [ready.nominal_at for ready in store.made_ahead([schedule.id], starting=False, now=at)]
        until = cursor - MICROSECOND
        right = [] if fresh is None or fresh > until else [fresh, *timetable.between(fresh, until, len(ahead) + 1)]
        if ahead == right and spec.first_run(timetable, until) == cursor:
            return Advance(schedule.id, cursor, error=schedule.error, release=release)
        take_back(store, [schedule], starting=False, reason="zone_data_changed", now=at)
    return Advance(schedule.id, fresh, release=release)


def _blame(schedule: Schedule) -> str | None:
    """What makes its jobs impossible, as far as the schedule alone can tell."""
    if schedule.lost:
        return f"job.{schedule.lost[0]}: the {schedule.lost[0].replace('_', ' ')} of this schedule is gone; edit the schedule"
    if not isinstance(schedule.spec.job.get("payload"), dict):
        return "job.payload: must be an object: a schedule's payload is a template"
    return None


def _told(fire: Fire) -> str | None:
    said = {"none": None, "wait": "waits for the previous one to end", "cancel": "the previous one was asked to stop"}[fire.regard]
    return "; ".join(text for text in (fire.reason, said) if text) or None


def _place(schedule: Schedule) -> Cursor | None:
    return Cursor(schedule.next_run_at, schedule.id) if schedule.next_run_at is not None else None
