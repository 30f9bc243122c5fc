"""Why a job does not run."""

from __future__ import annotations

from datetime import datetime

from tidemill.domain.explanation import Obstacle
from tidemill.store.base import Adapter


class Explains(Adapter):
    """Reads what the claim reads."""

    def obstacles(self, project_id: str, job_id: str, *, now: datetime | None) -> tuple[str, list[Obstacle], list[str]] | None:
        rows = self._rows("explain/job", {"project_id": project_id, "job_id": job_id, "now": now})
        if not rows:
            return None
        found = [Obstacle(*row[1:]) for row in rows[:-1]]
        return rows[-1][3], [one for one in found if one.reason != "note"], [one.detail for one in found if one.reason == "note"]

    def ahead_of(self, job_id: str, limit: int) -> int | None:
        """How many entries of the job's own lane and queue come before it, at most `limit`; None if it has no entry."""
        row = self._row("explain/ahead", {"job_id": job_id, "limit": limit})
        return int(row[0]) if row else None
