"""One occurrence as a job: made from its schedule, and taken back before it is due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tidemill.domain import templates
from tidemill.domain.jobs import JobSpec
from tidemill.domain.schedule import NOT_IN_A_SCHEDULE, Schedule, jitter
from tidemill.domain.transitions import State
from tidemill.engine.family import BATCH, CHILDREN, End, after_end
from tidemill.engine.schedule_store import Event, Ready, ScheduleStore

LONGEST_DELAY_MS: Final = 315_360_000_000


def job_of(schedule: Schedule, nominal_at: datetime, *, is_occurrence: bool = True) -> JobSpec:
    """The job object of an occurrence, due at its instant plus jitter; or (not `is_occurrence`) of one made by hand, due at once."""
    job: dict[str, Any] = {name: value for name, value in schedule.spec.job.items() if name not in NOT_IN_A_SCHEDULE}
    job["payload"] = templates.fill(job.get("payload"), schedule=schedule.name, scheduled_at=nominal_at)
    job["scheduled_job_id"] = schedule.id
    if is_occurrence:
        run_at = nominal_at + jitter(schedule.id, nominal_at, schedule.spec.jitter_ms) + timedelta(milliseconds=_delay_ms(job))
        job["scheduled_for"] = nominal_at.isoformat()
        job["run_at"] = templates.instant_text(run_at)
    return job


def take_back(store: ScheduleStore, schedules: Sequence[Schedule], *, starting: bool, reason: str, now: datetime) -> list[Ready]:
    """Cancels occurrences that were made ready ahead, with an event each; those that did not begin meanwhile.

    `starting`: also those whose instant has come and that only wait out their jitter. Within the caller's transaction.
    """
    taken = []
    for ready in store.made_ahead([schedule.id for schedule in schedules], starting=starting, now=now):
        traits = store.cancel_entry(ready.project_id, ready.job_id, reason, now=now)
        if traits is None:
            traits = store.cancel_waiting(ready.project_id, ready.job_id, "waiting", reason, now=now)
        if traits is None:
            continue
        taken.append(ready)
        if traits & (BATCH | CHILDREN):
            after_end(store, [End(ready.job_id, State.CANCELLED, traits)], now=now)
    if taken:
        store.add_schedule_events([Event(r.schedule_id, r.nominal_at, "cancelled", reason, r.job_id) for r in taken], now=now)
        store.rewind_schedules(sorted({ready.schedule_id for ready in taken}), now=now)
    return taken


def noted(store: ScheduleStore, events: Sequence[Event], *, keep: int, now: datetime | None) -> None:
    """Adds events and removes what is beyond the last `keep` of each schedule."""
    store.add_schedule_events(events, now=now)
    store.forget_schedule_events(sorted({event.schedule_id for event in events}), keep=keep)


def _delay_ms(job: dict[str, Any]) -> int:
    """The job's own delay after its instant, taken out of it; what is no delay stays, for the database to refuse."""
    delay = job.get("delay_ms")
    if isinstance(delay, int) and not isinstance(delay, bool) and 0 <= delay <= LONGEST_DELAY_MS:
        del job["delay_ms"]
        return delay
    return 0
