"""What the verbs of schedules ask of the world; `store/schedules.py` fulfils it on Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from tidemill.domain.jobs import JobSpec
from tidemill.domain.schedule import Schedule
from tidemill.ports import EnqueueStore, OperateStore, SettleStore


class Needs(NamedTuple):
    """What a schedule's jobs need, found by name: None where it does not exist."""

    queue_id: str | None
    is_closed: bool
    policy_id: str | None


class Ready(NamedTuple):
    """An occurrence that was made ready and has not begun."""

    schedule_id: str
    project_id: str
    job_id: str
    nominal_at: datetime


class Event(NamedTuple):
    """What became of an occurrence: `fired`, `skipped`, `cancelled` (after it was made ready) or `error`."""

    schedule_id: str
    nominal_at: datetime
    kind: str
    reason: str | None = None
    job_id: str | None = None
    at: datetime | None = None


class Advance(NamedTuple):
    """Where a schedule stands after a pass. `last_run_at` and `release` None keep what is stored; `error` None clears it."""

    schedule_id: str
    next_run_at: datetime | None
    last_run_at: datetime | None = None
    error: str | None = None
    release: str | None = None


class Cursor(NamedTuple):
    """A place in the order in which schedules are due."""

    next_run_at: datetime
    schedule_id: str


class ScheduleStore(SettleStore, OperateStore, EnqueueStore, Protocol):
    """Keeps schedules, their occurrences and their events. A bad value in a row is no error here: `timetable()` tells it."""

    def clock(self, *, now: datetime | None) -> datetime:
        """The database's time."""

    def lock_schedule(self, project_id: str, name: str) -> Schedule | None:
        """The schedule as it is stored, locked until the transaction ends."""

    def lock_schedules(self, project_id: str, names: Sequence[str]) -> dict[str, Schedule]:
        """Those of the schedules that are there, by name, locked in that order."""

    def schedules(self, project_id: str, *, name: str | None, after: str | None, limit: int, now: datetime | None) -> list[Schedule]:
        """By name; `next_run_at` and `last_run_at` as a caller sees them: what was made ready ahead is still to come."""

    def needs(self, project_id: str, queue: str, retry_policy: str | None) -> Needs:
        """Finds queue and policy."""

    def create_schedule(self, schedule: Schedule, needs: Needs) -> bool:
        """False if another one has the name."""

    def replace_schedule(self, schedule: Schedule, needs: Needs) -> None:
        """Stores its definition and where it stands; error and note are gone."""

    def move_schedule(
        self,
        schedule_id: str,
        *,
        is_active: bool,
        next_run_at: datetime | None,
        release: str | None,
        note: str | None,
        declared_by: str | None,
        now: datetime,
    ) -> None:
        """Pauses it, or starts it again from now."""

    def declare_schedule(self, schedule_id: str, declared_by: str) -> None:
        """Notes which program declares it."""

    def undeclared_schedules(self, project_id: str, declared_by: str, names: Sequence[str], *, limit: int) -> list[str]:
        """Names of active schedules that the program declared once and that are not among `names`."""

    def delete_schedule(self, schedule_id: str) -> None:
        """Removes it and its events; its jobs stay."""

    def made_ahead(self, schedule_ids: Sequence[str], *, starting: bool, now: datetime) -> list[Ready]:
        """Occurrences made ready whose instant is ahead; with `starting` also those that only jitter or delay still hold back."""

    def rewind_schedules(self, schedule_ids: Sequence[str], *, now: datetime) -> None:
        """Sets a last run that lies ahead back to the last that came: what was made ready after it has been taken back."""

    def schedule_events(self, schedule_id: str, limit: int) -> list[Event]:
        """The latest, newest first."""

    def add_schedule_events(self, events: Sequence[Event], *, now: datetime | None) -> None:
        """Appends, in order."""

    def forget_schedule_events(self, schedule_ids: Sequence[str], *, keep: int) -> int:
        """Removes all but the latest `keep` of each; how many went."""

    def due_schedules(
        self, after: Cursor | None, *, ahead_ms: int, limit: int, now: datetime | None
    ) -> tuple[datetime | None, list[Schedule]]:
        """(now, active schedules due before now + ahead, in order, locked); skips those that another pass holds. No rows: no now.

        Two statements: what was waited for must be read after it is locked.
        """

    def any_schedule_due(self, *, now: datetime | None) -> bool:
        """Whether the instant of an active schedule has come that nobody has decided about."""

    def due_schedule(self, schedule_id: str, *, ahead_ms: int, now: datetime | None) -> tuple[datetime | None, list[Schedule]]:
        """The same for one of them."""

    def stale_schedules(self, release: str, limit: int, *, now: datetime | None) -> tuple[datetime | None, list[Schedule]]:
        """(now, active schedules that other zone data was used for, locked)."""

    def unfinished_occurrences(self, schedule_ids: Sequence[str]) -> dict[str, list[str]]:
        """Schedule → its jobs that have not ended, among the latest 100."""

    def existing_occurrences(self, wanted: Sequence[tuple[str, datetime]]) -> set[tuple[str, datetime]]:
        """Those of (schedule, instant) that have a job which was not cancelled."""

    def advance_schedules(self, moves: Sequence[Advance]) -> None:
        """Stores where they stand."""

    def job_faults(self, jobs: Sequence[JobSpec]) -> list[str | None]:
        """The same of each."""

    def job_fault(self, job: JobSpec) -> str | None:
        """What is wrong with a job's shape, as `field: text`; None if nothing is."""

    def blames(self, error: BaseException) -> str | None:
        """Why it would happen again with this schedule, in words; None for what passes: a deadlock, a lost connection."""
