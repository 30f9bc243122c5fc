"""What `tidemill demo` asks of the database about its own jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from tidemill.store.base import Adapter

MOST = 100_000


class Became(NamedTuple):
    """What became of one job. Wait in seconds."""

    path: str
    status: str
    acked: int
    completions: int
    failures: int
    lost: int
    result: Any
    error_class: str | None
    wait_s: float | None
    began_at: datetime | None
    ended_at: datetime | None


class DemoReads(Adapter):
    """Bounded by the demo's own number of jobs."""

    def progress(self, project_id: str, job_type: str) -> tuple[int, int, int]:
        """Completed, dead and leased jobs of that type."""
        row = self._row("demo/progress", {"project_id": project_id, "job_type": job_type})
        return (row[0], row[1], row[2]) if row else (0, 0, 0)

    def outcomes(self, project_id: str, job_type: str) -> list[Became]:
        """What became of each."""
        rows = self._rows("demo/outcomes", {"project_id": project_id, "job_type": job_type, "limit": MOST})
        return [Became._make(row) for row in rows]

    def data_folder(self) -> str:
        """Where the server keeps its data; asked as a superuser."""
        row = self._row("demo/data_folder", {})
        assert row is not None
        return str(row[0])
