"""Schedules, their occurrences and their events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from tidemill.domain.cron.choices import OnFold, OnGap
from tidemill.domain.errors import Busy, Invalid
from tidemill.domain.jobs import JobSpec
from tidemill.domain.keys import compact_json
from tidemill.domain.schedule import OnMissed, Overlap, Schedule, Spec
from tidemill.engine.schedule_store import Advance, Cursor, Event, Needs, Ready
from tidemill.store import faults
from tidemill.store.base import Adapter


class Schedules(Adapter):
    """Implements engine.schedule_store.ScheduleStore."""

    def clock(self, *, now: datetime | None) -> datetime:
        row = self._row("schedules/clock", {"now": now})
        assert row is not None
        instant: datetime = row[0]
        return instant

    def lock_schedule(self, project_id: str, name: str) -> Schedule | None:
        return self.lock_schedules(project_id, [name]).get(name)

    def lock_schedules(self, project_id: str, names: Sequence[str]) -> dict[str, Schedule]:
        found = (_schedule(row) for row in self._rows("schedules/lock", {"project_id": project_id, "names": list(names)}))
        return {schedule.name: schedule for schedule in found}

    def schedules(self, project_id: str, *, name: str | None, after: str | None, limit: int, now: datetime | None) -> list[Schedule]:
        params = {"project_id": project_id, "name": name, "after": after, "limit": limit, "now": now}
        return [_schedule(row) for row in self._rows("schedules/list", params)]

    def needs(self, project_id: str, queue: str, retry_policy: str | None) -> Needs:
        row = self._row("schedules/needs", {"project_id": project_id, "queue": queue, "retry_policy": retry_policy})
        assert row is not None
        return Needs(*row)

    def create_schedule(self, schedule: Schedule, needs: Needs) -> bool:
        params = {"project_id": schedule.project_id, "name": schedule.name, **_params(schedule, needs)}
        return self._row("schedules/create", params) is not None

    def replace_schedule(self, schedule: Schedule, needs: Needs) -> None:
        self._row("schedules/replace", _params(schedule, needs))

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
        params = {"id": schedule_id, "is_active": is_active, "next_run_at": next_run_at, "release": release, "note": note}
        self._row("schedules/move", {**params, "declared_by": declared_by, "now": now})

    def declare_schedule(self, schedule_id: str, declared_by: str) -> None:
        self._row("schedules/declare", {"id": schedule_id, "declared_by": declared_by})

    def undeclared_schedules(self, project_id: str, declared_by: str, names: Sequence[str], *, limit: int) -> list[str]:
        params = {"project_id": project_id, "declared_by": declared_by, "names": list(names), "limit": limit}
        return [row[0] for row in self._rows("schedules/undeclared", params)]

    def delete_schedule(self, schedule_id: str) -> None:
        self._row("schedules/delete", {"id": schedule_id})

    def made_ahead(self, schedule_ids: Sequence[str], *, starting: bool, now: datetime) -> list[Ready]:
        params = {"ids": list(schedule_ids), "starting": starting, "now": now}
        return [Ready(*row) for row in self._rows("schedules/ahead", params)]

    def rewind_schedules(self, schedule_ids: Sequence[str], *, now: datetime) -> None:
        self._row("schedules/rewind", {"ids": list(schedule_ids), "now": now})

    def schedule_events(self, schedule_id: str, limit: int) -> list[Event]:
        rows = self._rows("schedules/events", {"id": schedule_id, "limit": limit})
        return [Event(schedule_id, nominal_at, kind, reason, job_id, at) for at, kind, nominal_at, reason, job_id in rows]

    def add_schedule_events(self, events: Sequence[Event], *, now: datetime | None) -> None:
        if events:
            told = [{**event._asdict(), "nominal_at": event.nominal_at.isoformat(), "at": None} for event in events]
            self._row("schedules/note", {"events": compact_json(told), "now": now})

    def forget_schedule_events(self, schedule_ids: Sequence[str], *, keep: int) -> int:
        row = self._row("schedules/forget", {"ids": list(schedule_ids), "keep": keep})
        return int(row[0]) if row else 0

    def due_schedules(
        self, after: Cursor | None, *, ahead_ms: int, limit: int, now: datetime | None
    ) -> tuple[datetime | None, list[Schedule]]:
        at, schedule_id = after or (None, None)
        params = {"after_at": at, "after_id": schedule_id, "ahead_ms": ahead_ms, "limit": limit, "now": now}
        locked = self._rows("schedules/due", params)
        if not locked:
            return None, []
        return locked[0][1], [_schedule(row) for row in self._rows("schedules/read", {"ids": [row[0] for row in locked]})]

    def any_schedule_due(self, *, now: datetime | None) -> bool:
        row = self._row("schedules/any_due", {"now": now})
        return bool(row and row[0])

    def due_schedule(self, schedule_id: str, *, ahead_ms: int, now: datetime | None) -> tuple[datetime | None, list[Schedule]]:
        return _timed(self._rows("schedules/due_one", {"id": schedule_id, "ahead_ms": ahead_ms, "now": now}))

    def stale_schedules(self, release: str, limit: int, *, now: datetime | None) -> tuple[datetime | None, list[Schedule]]:
        return _timed(self._rows("schedules/stale", {"release": release, "limit": limit, "now": now}))

    def unfinished_occurrences(self, schedule_ids: Sequence[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for schedule_id, job_id in self._rows("schedules/unfinished", {"ids": list(schedule_ids)}) if schedule_ids else ():
            found.setdefault(schedule_id, []).append(job_id)
        return found

    def existing_occurrences(self, wanted: Sequence[tuple[str, datetime]]) -> set[tuple[str, datetime]]:
        rows = self._rows("schedules/existing", {"ids": [i for i, _ in wanted], "instants": [at for _, at in wanted]})
        return {(row[0], row[1]) for row in rows}

    def advance_schedules(self, moves: Sequence[Advance]) -> None:
        if moves:
            self._row("schedules/advance", {"moves": compact_json([_move(move) for move in moves])})

    def job_fault(self, job: JobSpec) -> str | None:
        return self.job_faults([job])[0]

    def job_faults(self, jobs: Sequence[JobSpec]) -> list[str | None]:
        rows = self._rows("schedules/faults", {"jobs": compact_json([dict(job) for job in jobs])})
        first = {place: f"{field}: {message}" for place, field, message in reversed(rows)}
        return [first.get(place) for place in range(len(jobs))]

    def blames(self, error: BaseException) -> str | None:
        if isinstance(error, psycopg.Error):
            error = faults.translated(error)
        if isinstance(error, Busy):
            return None
        return error.detail if isinstance(error, Invalid) else f"its jobs could not be made: {type(error).__name__}"


def _move(move: Advance) -> Mapping[str, Any]:
    return {
        "id": move.schedule_id,
        "next_run_at": move.next_run_at.isoformat() if move.next_run_at else None,
        "last_run_at": move.last_run_at.isoformat() if move.last_run_at else None,
        "error": move.error[:2000] if move.error else None,
        "release": move.release,
    }


def _timed(rows: list[tuple[Any, ...]]) -> tuple[datetime | None, list[Schedule]]:
    return (rows[0][-1], [_schedule(row[:-1]) for row in rows]) if rows else (None, [])


def _schedule(row: tuple[Any, ...]) -> Schedule:
    (
        schedule_id, project_id, name, cron, every_ms, timezone, on_gap, on_fold, on_missed, backfill_limit, overlap, starts_at, ends_at,
        jitter_ms, is_active, anchor_at, next_run_at, last_run_at, release, declared_by, error, note, created_at, updated_at, job_type,
        payload, job, queue, policy, names_policy,
    ) = row  # fmt: skip
    rest = job if isinstance(job, dict) else {}
    fields = {"job_type": job_type, "queue": queue, "payload": payload, **rest}
    if names_policy:
        fields["retry_policy"] = policy
    lost = tuple(field for field, is_lost in (("queue", queue is None), ("retry_policy", names_policy and policy is None)) if is_lost)
    spec = Spec(
        job=fields, cron=cron, every_ms=every_ms, timezone=timezone, on_gap=OnGap(on_gap), on_fold=OnFold(on_fold),
        on_missed=OnMissed(on_missed), backfill_limit=backfill_limit, overlap=Overlap(overlap), starts_at=starts_at, ends_at=ends_at,
        jitter_ms=jitter_ms, is_paused=not is_active,
    )  # fmt: skip
    return Schedule(
        id=schedule_id, project_id=project_id, name=name, spec=spec, is_active=is_active, anchor_at=anchor_at, next_run_at=next_run_at,
        last_run_at=last_run_at, zone_data_release=release, declared_by=declared_by, error=error, note=note, created_at=created_at,
        updated_at=updated_at, lost=lost,
    )  # fmt: skip


def _params(schedule: Schedule, needs: Needs) -> dict[str, Any]:
    spec, job = schedule.spec, dict(schedule.spec.job)
    if isinstance(job.get("retry_policy"), str):
        del job["retry_policy"]
    job.pop("queue", None)
    return {
        "id": schedule.id, "queue_id": needs.queue_id, "retry_policy_id": needs.policy_id, "cron": spec.cron, "every_ms": spec.every_ms,
        "timezone": spec.timezone, "job_type": job.pop("job_type"),
        "payload": compact_json(job.pop("payload", {})), "job": compact_json(job),
        "is_active": schedule.is_active, "on_missed": spec.on_missed.value, "backfill_limit": spec.backfill_limit,
        "overlap": spec.overlap.value,
        "on_gap": spec.on_gap.value, "on_fold": spec.on_fold.value, "starts_at": spec.starts_at, "ends_at": spec.ends_at,
        "jitter_ms": spec.jitter_ms, "anchor_at": schedule.anchor_at, "next_run_at": schedule.next_run_at,
        "release": schedule.zone_data_release,
        "declared_by": schedule.declared_by, "now": schedule.updated_at,
    }  # fmt: skip
