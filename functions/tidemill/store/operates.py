"""Single jobs moved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidemill.domain.jobs import Deleted, Edit, Lease
from tidemill.domain.transitions import State
from tidemill.store.base import Adapter, array


class Operates(Adapter):
    """Implements ports.OperateStore."""

    def state(self, project_id: str, job_id: str, *, now: datetime | None = None) -> tuple[State, Lease | None] | None:
        row = self._row("jobs/state", {"project_id": project_id, "job_id": job_id, "now": now})
        return (State(row[0]), Lease(job_id, row[1]) if row[1] else None) if row else None

    def cancel_entry(self, project_id: str, job_id: str, reason: str, *, now: datetime | None) -> int | None:
        return self._traits("cancel_entry", project_id, job_id, reason=reason, now=now)

    def cancel_waiting(self, project_id: str, job_id: str, phase: str, reason: str, *, now: datetime | None) -> int | None:
        return self._traits("cancel_waiting", project_id, job_id, phase=phase, reason=reason, now=now)

    def request_cancel(self, project_id: str, job_id: str, *, now: datetime | None) -> Lease | None:
        row = self._row("transitions/request_cancel", {"project_id": project_id, "job_id": job_id, "now": now})
        return Lease(row[0], row[1]) if row else None

    def take_hold(self, project_id: str, job_id: str, *, now: datetime | None) -> str | None:
        row = self._row("transitions/take_hold", {"project_id": project_id, "job_id": job_id, "now": now})
        return row[0] if row else None

    def retry(self, project_id: str, job_id: str, *, by: str | None, now: datetime | None) -> int | None:
        return self._traits("retry", project_id, job_id, by=by, now=now)

    def promote(self, project_id: str, job_id: str, *, now: datetime | None) -> bool:
        return self._moved("promote", project_id, job_id, now=now)

    def move_entry(
        self,
        project_id: str,
        job_id: str,
        *,
        run_at: datetime | None = None,
        priority: int | None = None,
        only_ahead: bool = False,
        now: datetime | None,
    ) -> bool:
        return self._moved("move_entry", project_id, job_id, run_at=run_at, priority=priority, only_ahead=only_ahead, now=now)

    def move_waiting(
        self,
        project_id: str,
        job_id: str,
        *,
        run_at: datetime | None = None,
        priority: int | None = None,
        phases: Sequence[str] = ("waiting",),
        now: datetime | None,
    ) -> bool:
        return self._moved("reschedule_waiting", project_id, job_id, run_at=run_at, priority=priority, phases=list(phases), now=now)

    def edit(self, project_id: str, job_id: str, edit: Edit, *, now: datetime | None) -> bool:
        tags = list(edit.tags) if edit.tags is not None else None
        return self._moved("edit", project_id, job_id, payload=edit.payload, tags=tags, schema_version=edit.schema_version, now=now)

    def delete(self, project_id: str, job_ids: Sequence[str]) -> list[Deleted]:
        rows = self._rows("transitions/delete", {"project_id": project_id, "job_ids": array(job_ids)})
        self._forget_keys([row[0] for row in rows])
        return [Deleted(*row) for row in rows]

    def _moved(self, verb: str, project_id: str, job_id: str, **params: Any) -> bool:
        return self._row(f"transitions/{verb}", {"project_id": project_id, "job_id": job_id, **params}) is not None

    def _traits(self, verb: str, project_id: str, job_id: str, **params: Any) -> int | None:
        row = self._row(f"transitions/{verb}", {"project_id": project_id, "job_id": job_id, **params})
        return int(row[1]) if row else None
