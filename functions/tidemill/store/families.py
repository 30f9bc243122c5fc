"""Children and batches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidemill.domain.jobs import BatchCount, ChildMoved, Enqueued, JobSpec
from tidemill.domain.keys import compact_json
from tidemill.store.base import Adapter


class Families(Adapter):
    """Implements ports.FamilyStore."""

    def settle_children(self, parents: Sequence[tuple[str, bool]], *, limit: int, now: datetime | None) -> tuple[list[ChildMoved], int]:
        params = {"parents": [p for p, _ in parents], "failed": [f for _, f in parents], "limit": limit, "now": now}
        rows = self._rows("transitions/settle_children", params)
        return [ChildMoved(*row[:3]) for row in rows], rows[0][3] if rows else 0

    def left_behind(self, *, after: str, limit: int) -> list[tuple[str, bool]]:
        return [(row[0], row[1]) for row in self._rows("dependencies/left_behind", {"after": after, "limit": limit})]

    def batches_of(self, job_ids: Sequence[str]) -> dict[str, str]:
        return dict(self._pairs("batches/of_jobs", {"job_ids": list(job_ids)})) if job_ids else {}

    def count_members(self, counted: Sequence[tuple[str, str, int]], *, reopen: bool, now: datetime | None) -> list[BatchCount]:
        params = {
            "batch_ids": [b for b, _, _ in counted],
            "outcomes": [c for _, c, _ in counted],
            "deltas": [n for _, _, n in counted],
            "reopen": reopen,
            "now": now,
        }
        return [BatchCount(*row) for row in self._rows("transitions/count_members", params)]

    def finish_batch(self, batch_id: str, status: str, fired: Sequence[str], error: str | None, *, now: datetime | None) -> bool:
        params = {"batch_id": batch_id, "status": status, "fired": list(fired), "error": error, "now": now}
        return self._row("transitions/finish_batch", params) is not None

    def enqueue_specs(self, project_id: str, jobs: Sequence[JobSpec], *, now: datetime | None) -> list[Enqueued]:
        text = compact_json([dict(job) for job in jobs])
        rows = self._rows("jobs/enqueue", {"project_id": project_id, "jobs": text, "atomic": False, "now": now})
        return [Enqueued(*row) for row in rows]

    def create_batch(self, project_id: str, batch_id: str, name: str, callbacks_json: str, *, now: datetime | None) -> None:
        params = {"project_id": project_id, "batch_id": batch_id, "name": name, "callbacks": callbacks_json, "now": now}
        self._row("batches/create", params)

    def batch_status(self, project_id: str, batch_id: str) -> str | None:
        row = self._row("batches/show", {"project_id": project_id, "batch_id": batch_id})
        return row[2] if row else None

    def seal_batch(self, project_id: str, batch_id: str, *, now: datetime | None) -> BatchCount | None:
        row = self._row("transitions/seal_batch", {"project_id": project_id, "batch_id": batch_id, "now": now})
        return BatchCount(*row) if row else None

    def cancel_batch(self, project_id: str, batch_id: str, *, now: datetime | None) -> str | None:
        row = self._row("transitions/cancel_batch", {"project_id": project_id, "batch_id": batch_id, "now": now})
        return row[0] if row else None

    def unfinished_members(self, batch_id: str, *, after: str, limit: int) -> list[tuple[str, str]]:
        return self._pairs("batches/unfinished", {"batch_id": batch_id, "after": after, "limit": limit})

    def cancelling_batches(self, limit: int, *, now: datetime | None) -> list[tuple[str, str]]:
        return self._pairs("batches/cancelling", {"limit": limit, "now": now})

    def _pairs(self, name: str, params: dict[str, Any]) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._rows(name, params)]
