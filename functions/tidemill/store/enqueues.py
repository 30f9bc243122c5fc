"""Jobs come in."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tidemill.domain.jobs import Enqueued, JobSpec
from tidemill.store.base import Adapter


class Enqueues(Adapter):
    """Implements ports.EnqueueStore."""

    def enqueue(self, project_id: str, jobs_json: str, *, atomic: bool, plain: bool, now: datetime | None) -> list[Enqueued]:
        params = {"project_id": project_id, "jobs": jobs_json, "atomic": atomic, "plain": plain, "now": now}
        rows = self._rows("jobs/enqueue", params)
        return [Enqueued(*row) for row in rows]

    def enqueue_one(self, project_id: str, job_json: str, *, atomic: bool, now: datetime | None) -> Enqueued:
        row = self._row("jobs/enqueue_one", {"project_id": project_id, "job": job_json, "atomic": atomic, "now": now})
        assert row is not None
        return Enqueued(0, *json.loads(row[0]))

    def spec_of(self, project_id: str, job_id: str) -> JobSpec | None:
        row = self._row("jobs/spec", {"project_id": project_id, "job_id": job_id})
        if row is None:
            return None
        spec: dict[str, Any] = row[0]
        return {k: v for k, v in spec.items() if v is not None or k == "payload"}
