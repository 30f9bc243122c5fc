"""Statistics of one project: every count bounded, every statement an index range or a few rows. Rows are dictionaries by column name."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tidemill.store.reads import Reads, Row

LEASES: Final = 20_000
"""Leases of all projects, of which no more are looked at."""
WORKERS: Final = 2_000
COUNTER_ROWS: Final = 200_000


class Stats(Reads):
    """What the statistics read. Nothing here locks."""

    def states(self, project_id: str, *, most: int) -> list[Row]:
        """Per state: state, count (at most `most`), better."""
        return self._dicts("stats/states", {"project_id": project_id, "most": most, "leases": LEASES})

    def queue_depths(self, project_id: str, *, name: str | None = None, queues: int, most: int) -> list[Row]:
        """What stands in each of at most so many queues by name, or in one."""
        params = {"project_id": project_id, "name": name, "limit": queues, "most": most, "leases": LEASES}
        return self._dicts("stats/queues", params)

    def rates(self, project_id: str, *, name: str | None = None) -> tuple[dict[str, Row], datetime | None]:
        """Per queue what happened lately, and up to when that is counted (None: nothing is yet)."""
        rows = self._dicts("stats/rates", {"project_id": project_id, "name": name})
        return {row["name"]: row for row in rows if row["name"] is not None}, rows[-1]["counted_until"] if rows else None

    def live_workers(self, project_id: str, *, queue: str | None = None) -> tuple[int, int]:
        """(live workers, jobs that they can run at once)."""
        row = self._row("stats/workers", {"project_id": project_id, "queue": queue, "most": WORKERS})
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def history(
        self, project_id: str, *, queue: str | None, since: datetime, until: datetime, bucket: timedelta, hourly: bool
    ) -> tuple[list[Row], bool]:
        """The buckets in which something happened, and whether all of their rows could be read."""
        params = {"project_id": project_id, "queue": queue, "since": since, "until": until, "bucket": bucket, "hourly": hourly}
        rows = self._dicts("stats/history", {**params, "most": COUNTER_ROWS})
        return rows, not rows or rows[0]["read"] < COUNTER_ROWS

    def latency_buckets(self, project_id: str, *, queue: str | None, since: datetime) -> list[Row]:
        """Counts per bucket: bucket, waits, runs."""
        return self._dicts("stats/latency", {"project_id": project_id, "queue": queue, "since": since, "most": COUNTER_ROWS})

    def job_types(self, project_id: str, *, after: str | None, limit: int) -> list[Row]:
        """The job types that the project has used, by name."""
        return self._dicts("stats/job_types", {"project_id": project_id, "after": after, "limit": limit})

    def totals(self, project_id: str, *, limit: int) -> list[Row]:
        """What has happened in each queue since the beginning, by name."""
        return self._dicts("stats/totals", {"project_id": project_id, "limit": limit})

    def counted_until(self) -> datetime | None:
        """Up to when the counters are folded."""
        row = self._row("stats/counted_until", {})
        return row[0] if row else None
