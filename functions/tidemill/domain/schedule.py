"""Schedules as data: what is asked for (`Spec`), what is stored (`Schedule`), and when it fires first.

Pure: the database's clock and the zone data's release are handed in or pinned with the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from tidemill.domain import cron, templates
from tidemill.domain.cron.choices import OnFold, OnGap
from tidemill.domain.errors import Fault, Invalid

if TYPE_CHECKING:
    from tidemill.domain.cron import Timetable

MICROSECOND: Final = timedelta(microseconds=1)
EVERY_MS: Final = (1_000, 315_360_000_000)
JITTER_MS: Final = (0, 86_400_000)
BACKFILL: Final = (1, 1_000)
NOT_IN_A_SCHEDULE: Final = {
    "run_at": "the schedule says when its jobs run: leave it out",
    "idempotency_key": "each occurrence exists once by itself; use `unique` to skip one while another job is unfinished",
    "ref": "only means something within one bulk call: leave it out",
}


class OnMissed(StrEnum):
    """What becomes of occurrences whose time passed while nothing fired them."""

    SKIP = "skip"
    RUN_ONCE = "run_once"
    BACKFILL = "backfill"


class Overlap(StrEnum):
    """What becomes of an occurrence while an earlier one is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    CANCEL_RUNNING = "cancel_running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """All that a caller decides about a schedule. `job`: create fields of its jobs, `payload` (an object) among them.

    Either `cron` (with `timezone`, `on_gap`, `on_fold`) or `every_ms`. Occurrences lie in `starts_at` <= instant < `ends_at`.
    `is_paused` None leaves it as it is.
    """

    job: Mapping[str, Any]
    cron: str | None = None
    every_ms: int | None = None
    timezone: str = "UTC"
    on_gap: OnGap = OnGap.FIRE_AFTER
    on_fold: OnFold = OnFold.FIRST
    on_missed: OnMissed = OnMissed.RUN_ONCE
    backfill_limit: int = 0
    overlap: Overlap = Overlap.ALLOW
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    jitter_ms: int = 0
    is_paused: bool | None = None

    def timetable(self, anchor: datetime, *, after: datetime | None = None) -> Timetable:
        """When it fires. CronError for what cannot be one; `after` refuses also what never comes from then on (R6)."""
        if self.cron is not None:
            return cron.parse(self.cron, self.timezone, on_gap=self.on_gap, on_fold=self.on_fold, after=after)
        return cron.Every(self.every_ms or 0, anchor)

    def first_run(self, timetable: Timetable, after: datetime) -> datetime | None:
        """The first occurrence strictly later than `after` within the schedule's period; None if there is none."""
        if self.starts_at is not None and self.starts_at > after:
            after = self.starts_at - MICROSECOND
        found = timetable.next_after(after)
        return None if found is None or (self.ends_at is not None and found >= self.ends_at) else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A stored schedule. `next_run_at` is the first occurrence that nothing has been decided about; None while paused, ended or broken.

    `anchor_at`: the phase of `every_ms`. `queue` and a named retry policy are None in `spec.job` where they are gone.
    """

    id: str
    project_id: str
    name: str
    spec: Spec
    is_active: bool
    anchor_at: datetime
    next_run_at: datetime | None
    last_run_at: datetime | None
    zone_data_release: str | None
    declared_by: str | None
    error: str | None
    note: str | None
    created_at: datetime
    updated_at: datetime
    lost: tuple[str, ...] = field(default=())
    """What its jobs need and is gone: `queue`, `retry_policy`."""

    def timetable(self) -> Timetable:
        """When it fires. CronError if the row holds what was never accepted."""
        return self.spec.timetable(self.anchor_at)


def check(spec: Spec, *, anchor: datetime, now: datetime) -> Timetable:
    """Its timetable, or Invalid with every fault of the fields taken together."""
    faults = []
    if (spec.cron is None) == (spec.every_ms is None):
        faults.append(Fault(("cron",), "give either cron or every_ms, and only one of them"))
    if spec.starts_at is not None and spec.ends_at is not None and spec.ends_at <= spec.starts_at:
        faults.append(Fault(("ends_at",), "must be later than starts_at"))
    if spec.on_missed is OnMissed.BACKFILL and not BACKFILL[0] <= spec.backfill_limit <= BACKFILL[1]:
        faults.append(Fault(("backfill_limit",), f"must be {BACKFILL[0]} to {BACKFILL[1]:,} with on_missed backfill"))
    faults += [Fault(("job", name), text) for name, text in NOT_IN_A_SCHEDULE.items() if spec.job.get(name) is not None]
    if spec.overlap is Overlap.BUFFER_ONE and spec.job.get("depends_on"):
        faults.append(Fault(("job", "depends_on"), "cannot be combined with overlap buffer_one, which waits for the previous occurrence"))
    if (fault := templates.fault_of(spec.job.get("payload", {}))) is not None:
        faults.append(Fault(("job", "payload"), fault))
    if faults:
        raise Invalid(faults)
    return spec.timetable(anchor, after=now)


def anchor_of(spec: Spec, before: Schedule | None, *, now: datetime) -> datetime:
    """The phase of an interval: `starts_at` where it is given, else what it was, else the second of now."""
    if spec.starts_at is not None:
        return spec.starts_at
    if before is not None and before.spec.every_ms == spec.every_ms:
        return before.anchor_at
    return now.replace(microsecond=0)


def object_of(spec: Spec) -> dict[str, Any]:
    """The spec as the body of `PUT /v1/schedules/{name}`; what has its default is left out."""
    found = {field.name: getattr(spec, field.name) for field in fields(spec) if getattr(spec, field.name) != field.default}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in found.items()} | {"job": dict(spec.job)}


def jitter(schedule_id: str, nominal_at: datetime, jitter_ms: int) -> timedelta:
    """How much later than its instant an occurrence runs: 0 <= delay < `jitter_ms`, always the same for one occurrence."""
    if jitter_ms <= 0:
        return timedelta(0)
    digest = blake2b(f"{schedule_id} {nominal_at.timestamp():.6f}".encode(), digest_size=8).digest()
    return timedelta(milliseconds=int.from_bytes(digest, "big") % jitter_ms)
