"""Children and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from tidemill.domain.jobs import Batch, BatchCount, ChildMoved, Enqueued, JobSpec
from tidemill.domain.keys import compact_json
from tidemill.store.base import Adapter
from tidemill.store.statements import sql


class Families(Adapter):
    """Implements ports.FamilyStore and the stores of engine.batch_store."""

    def settle_children(self, parents: Sequence[tuple[str, bool]], *, limit: int, now: datetime | None) -> tuple[list[ChildMoved], int]:
        params = {"parents": [p for p, _ in parents], "failed": [f for _, f in parents], "limit": limit, "now": now}
        rows = self._rows("transitions/settle_children", params)
        return [ChildMoved(*row[:3]) for row in rows], rows[0][3] if rows else 0

    def left_behind(self, *, limit: int) -> list[tuple[str, bool]]:
        return [(row[0], row[1]) for row in self._rows("dependencies/left_behind", {"limit": limit})]

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

    def enqueue_callback(self, project_id: str, job: JobSpec, *, now: datetime | None) -> Enqueued:
        params = {"project_id": project_id, "jobs": compact_json([dict(job)]), "atomic": False, "now": now}
        try:
            with self._conn.transaction():  # a savepoint: a callback that cannot be stored must not undo the ack that fires it
                return Enqueued(*self._rows("jobs/enqueue_owed", params)[0])
        except (psycopg.DataError, psycopg.IntegrityError):
            return Enqueued(0, None, None, False, "validation_error", "job", "a value that the database cannot store")

    def create_batch(self, project_id: str, batch_id: str, name: str, callbacks_json: str, *, now: datetime | None) -> None:
        params = {"project_id": project_id, "batch_id": batch_id, "name": name, "callbacks": callbacks_json, "now": now}
        self._row("batches/create", params)

    def callback_faults(self, project_id: str, callbacks: Mapping[str, JobSpec]) -> list[tuple[str, str, str]]:
        if not callbacks:
            return []
        params = {"project_id": project_id, "jobs": compact_json([dict(job) for job in callbacks.values()])}
        row = self._row("batches/callback_faults", params)
        fields, messages = row or ([], [])
        return [(name, field, text) for name, field, text in zip(callbacks, fields, messages, strict=False) if field is not None]

    def batch(self, project_id: str, batch_id: str) -> Batch | None:
        row = self._row("batches/show", {"project_id": project_id, "batch_id": batch_id})
        return Batch(*row) if row else None

    def batches(self, project_id: str, *, before: str | None, limit: int) -> list[Batch]:
        return [Batch(*row) for row in self._rows("batches/list", {"project_id": project_id, "before": before, "limit": limit})]

    def relatives(self, project_id: str, job_id: str, limit: int) -> list[tuple[str, str, str | None, str | None]]:
        rows = self._rows("dependencies/of_job", {"project_id": project_id, "job_id": job_id, "limit": limit})
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def seal_batch(self, project_id: str, batch_id: str, *, now: datetime | None) -> BatchCount | None:
        row = self._row("transitions/seal_batch", {"project_id": project_id, "batch_id": batch_id, "now": now})
        return BatchCount(*row) if row else None

    def cancel_batch(self, project_id: str, batch_id: str, *, now: datetime | None) -> tuple[str, str | None] | None:
        row = self._row("transitions/cancel_batch", {"project_id": project_id, "batch_id": batch_id, "now": now})
        return (row[0], row[1]) if row else None

    def unfinished_members(self, batch_id: str, *, after: str, walk: int, limit: int) -> tuple[list[str], str | None]:
        row = self._row("batches/unfinished", {"batch_id": batch_id, "after": after, "walk": walk, "limit": limit})
        return (row[0], row[1]) if row else ([], None)

    def walked(self, batch_id: str, *, after: str | None) -> None:
        self._conn.execute(sql("batches/walked"), {"batch_id": batch_id, "after": after})

    def cancelling_batches(self, limit: int) -> list[tuple[str, str, str]]:
        return [(row[0], row[1], row[2]) for row in self._rows("batches/cancelling", {"limit": limit})]

    def _pairs(self, name: str, params: dict[str, Any]) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._rows(name, params)]
