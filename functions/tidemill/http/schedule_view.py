"""Schedules, their events and previews as the API shows them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tidemill.domain.cron import CronError, Transition
from tidemill.domain.schedule import Schedule
from tidemill.domain.templates import instant_text
from tidemill.engine.schedule_store import Event
from tidemill.engine.schedules import Preview
from tidemill.http.job_view import instant

Row = dict[str, Any]


def shown(schedule: Schedule) -> Row:
    """A schedule. Instants that a rule makes are written as short as they are: 2027-01-31T09:00:00Z."""
    spec = schedule.spec
    return {
        "id": schedule.id,
        "name": schedule.name,
        **{name: getattr(spec, name) for name in ("cron", "every_ms", "timezone", "on_gap", "on_fold")},
        "job": dict(spec.job),
        **{name: getattr(spec, name) for name in ("on_missed", "backfill_limit", "overlap")},
        "starts_at": _short(spec.starts_at),
        "ends_at": _short(spec.ends_at),
        "jitter_ms": spec.jitter_ms,
        "is_paused": not schedule.is_active,
        "description": _description(schedule),
        "next_run_at": _short(schedule.next_run_at) if schedule.is_active else None,
        "last_run_at": _short(schedule.last_run_at),
        **{name: getattr(schedule, name) for name in ("error", "note", "declared_by", "zone_data_release")},
        "created_at": instant(schedule.created_at),
        "updated_at": instant(schedule.updated_at),
    }


def event_shown(event: Event) -> Row:
    """An event."""
    return {
        "at": instant(event.at),
        "kind": event.kind,
        "scheduled_at": _short(event.nominal_at),
        "reason": event.reason,
        "job_id": event.job_id,
    }


def preview_shown(preview: Preview) -> Row:
    """A preview."""
    return {
        "fires": [instant_text(fire) for fire in preview.fires],
        "description": preview.description,
        "transitions": [_transition(change) for change in preview.transitions],
    }


def _transition(change: Transition) -> Row:
    return {
        "at": instant_text(change.at),
        "kind": change.kind,
        "offset_before": _offset(change.offset_before),
        "offset_after": _offset(change.offset_after),
        "local_before": change.local_before.isoformat(),
        "local_after": change.local_after.isoformat(),
    }


def _offset(offset: timedelta) -> str:
    minutes = round(abs(offset).total_seconds() / 60)
    return f"{'-' if offset < timedelta(0) else '+'}{minutes // 60:02}:{minutes % 60:02}"


def _short(value: datetime | None) -> str | None:
    return instant_text(value) if value is not None else None


def _description(schedule: Schedule) -> str | None:
    try:
        return schedule.timetable().describe()
    except CronError:
        return None
