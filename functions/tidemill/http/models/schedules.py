"""Schedules: what is asked for, and what one looks like."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import schedule as bounds
from tidemill.http.fields import CLOSED, Id, Instant, Label, Name
from tidemill.http.models.jobs import JobIn
from tidemill.http.queries import Whole

EveryMs = Annotated[int, Field(ge=bounds.EVERY_MS[0], le=bounds.EVERY_MS[1])]
Count = Annotated[int, Field(ge=1, le=1_000)]
OnMissed = Literal["skip", "run_once", "backfill"]
Overlap = Literal["allow", "skip", "buffer_one", "cancel_running"]
OnGap = Literal["fire_after", "skip"]
OnFold = Literal["first", "second", "both"]


@with_config(CLOSED)
class Timing(TypedDict, total=False):
    """When: `cron` (five fields or an alias such as @daily) in `timezone` (IANA), or `every_ms`."""

    cron: str | None
    every_ms: EveryMs | None
    timezone: str | None
    on_gap: OnGap | None
    on_fold: OnFold | None


class ScheduleFields(Timing, total=False):
    """Timing and rules; null stands for a field that is left out. Occurrences lie in `starts_at` <= instant < `ends_at`."""

    on_missed: OnMissed | None
    backfill_limit: Annotated[int, Field(ge=0, le=bounds.BACKFILL[1])] | None
    overlap: Overlap | None
    starts_at: Instant | None
    ends_at: Instant | None
    jitter_ms: Annotated[int, Field(ge=bounds.JITTER_MS[0], le=bounds.JITTER_MS[1])] | None
    is_paused: bool | None


class ScheduleIn(ScheduleFields, total=False):
    """A whole schedule. `job`: create fields but run_at; `is_paused` left out leaves a stored one as it is."""

    job: Required[Any]


class ScheduleEdit(ScheduleFields, total=False):
    """What to change; what is left out stays, null sets the default. Fields of `job` are laid over the stored ones."""

    job: dict[str, Any]


class ScheduleDocument(ScheduleFields, total=False):
    """A whole schedule. `job`: create fields but run_at, idempotency_key and ref, its payload an object."""

    job: Required[JobIn]


@with_config(CLOSED)
class SyncIn(TypedDict):
    """All schedules that a program declares, by name."""

    declared_by: Label
    schedules: Annotated[dict[Name, ScheduleIn], Field(max_length=1_000)]


class SyncOut(TypedDict):
    """How many were created and changed, and paused because they are declared no more."""

    created: int
    changed: int
    paused: int


class PreviewIn(Timing, total=False):
    """A timing to look at. `after`: null is now."""

    after: Instant | None
    n: Count


@with_config(CLOSED)
class PreviewQuery(TypedDict, total=False):
    """How many."""

    n: Annotated[int, Whole, Field(ge=1, le=1_000)]


class Schedule(TypedDict):
    """A schedule. `error`: why it does not fire; `note`: why it was paused; `description`: null if its timing is broken."""

    id: Id
    name: str
    cron: str | None
    every_ms: int | None
    timezone: str
    on_gap: OnGap
    on_fold: OnFold
    job: dict[str, Any]
    on_missed: OnMissed
    backfill_limit: int
    overlap: Overlap
    starts_at: Instant | None
    ends_at: Instant | None
    jitter_ms: int
    is_paused: bool
    description: str | None
    next_run_at: Instant | None
    last_run_at: Instant | None
    error: str | None
    note: str | None
    declared_by: str | None
    zone_data_release: str | None
    created_at: Instant
    updated_at: Instant


class SchedulesPage(TypedDict):
    """A page of schedules by name."""

    items: list[Schedule]
    next_cursor: str | None


class Transition(TypedDict):
    """A change of the clocks; offsets such as +01:00, locals without one."""

    at: Instant
    kind: Literal["gap", "fold"]
    offset_before: str
    offset_after: str
    local_before: str
    local_after: str


class Preview(TypedDict):
    """When it fires, what that means, and how the zone's clocks change next."""

    fires: list[Instant]
    description: str
    transitions: list[Transition]


class ScheduleEvent(TypedDict):
    """What became of an occurrence, or of several (told by the last of them)."""

    at: Instant
    kind: Literal["fired", "skipped", "cancelled", "error"]
    scheduled_at: Instant
    reason: str | None
    job_id: Id | None


class ScheduleEvents(TypedDict):
    """The last 100, newest first."""

    items: list[ScheduleEvent]
    next_cursor: NotRequired[None]
