"""Jobs go out under leases. Watermarks live here, in the process's memory (docs/adr/0003)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import Connection

from tidemill.domain.jobs import ClaimedJob, ClaimRequest, Lease
from tidemill.store.base import Adapter

LAG: Final = timedelta(milliseconds=200)
FULL_SCAN_EVERY_SECS: Final = 5.0
LEVELS_KEPT: Final = 10_000
LOOKS: Final = 20

JobTypes = frozenset[str] | None


class Watermarks:
    """Per queue and priority, where the next claim starts to look: the last run_at claimed less 0.2 s.

    Rows that a long transaction committed behind the mark are picked up by a scan without marks every 5 s. The marks only
    save work: under an old snapshot the index keeps dead rows, and a claim would walk all of them again and again.
    Claims of other job types have marks of their own: what one passes over is still ahead of another.
    """

    def __init__(self) -> None:
        self._marks: dict[JobTypes, dict[tuple[str, int], datetime]] = {}
        self._scan_at = 0.0
        self._unscanned: set[JobTypes] = set()
        self._is_scan = False

    def since(self, job_types: JobTypes) -> tuple[list[str], list[int], list[datetime]]:
        """Queue ids, priorities and instants of one length; empty when a scan without marks is due."""
        now = time.monotonic()
        if now >= self._scan_at:
            self._scan_at = now + FULL_SCAN_EVERY_SECS
            self._unscanned.update(self._marks)
        marks = self._marks.get(job_types, {})
        self._is_scan = job_types in self._unscanned or not marks
        if self._is_scan:
            self._unscanned.discard(job_types)
            return [], [], []
        return [q for q, _ in marks], [p for _, p in marks], list(marks.values())

    def claimed(self, job_types: JobTypes, jobs: Sequence[ClaimedJob]) -> None:
        """Moves the marks up to what was claimed; after a scan also back, so that a clock that was set back hides nothing for long.

        A scan that finds nothing leaves them where they are: an idle worker would else walk all dead rows at every look.
        """
        if sum(map(len, self._marks.values())) > LEVELS_KEPT:
            self._marks.clear()
        found: dict[tuple[str, int], datetime] = {}
        for job in jobs:
            key, mark = (job.queue_id, job.priority), job.run_at - LAG
            if (known := found.get(key)) is None or mark > known:
                found[key] = mark
        if not found:
            return
        marks = self._marks.setdefault(job_types, {})
        for key, mark in found.items():
            if self._is_scan or (known := marks.get(key)) is None or mark > known:
                marks[key] = mark


class Claims(Adapter):
    """Implements ports.ClaimStore."""

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn)
        self.watermarks = Watermarks()

    def claim(self, request: ClaimRequest, *, now: datetime | None) -> list[ClaimedJob]:
        jobs, rest = self._claim_plain(request, request.queues, request.limit, now)
        for queue_id, name, gated in rest:
            room = request.limit - len(jobs)
            if room <= 0:
                break
            if gated:
                jobs += self._claim_gated(request, queue_id, room, now)
            else:
                jobs += self._claim_plain(request, [name], room, now)[0]
        return jobs

    def _claim_plain(
        self, request: ClaimRequest, names: Sequence[str], limit: int, now: datetime | None
    ) -> tuple[list[ClaimedJob], list[tuple[str, str, bool]]]:
        """Jobs of the queues in front of the first gated one, and the queues from there on: (id, name, gated), in order.

        Looks again, a few times, where quarantined jobs were set aside instead: others may stand behind them.
        """
        jobs, rest, is_aside = self._look(request, names, limit, now)
        for _ in range(LOOKS):
            if not is_aside or len(jobs) >= limit:
                break
            more, rest, is_aside = self._look(request, names, limit - len(jobs), now)
            jobs += more
        return jobs, rest

    def _look(
        self, request: ClaimRequest, names: Sequence[str], limit: int, now: datetime | None
    ) -> tuple[list[ClaimedJob], list[tuple[str, str, bool]], bool]:
        job_types = frozenset(request.job_types) if request.job_types is not None else None
        queues, priorities, instants = self.watermarks.since(job_types) if now is None else ([], [], [])
        params = {
            **_params(request, limit, now),
            "project_id": request.project_id,
            "queues": list(names),
            "since_queues": queues,
            "since_priorities": priorities,
            "since_at": instants,
        }
        rows = self._rows("transitions/claim", params)
        jobs = [ClaimedJob._make(row[:-1]) for row in rows if row[0] is not None]
        if now is None:
            self.watermarks.claimed(job_types, jobs)
        rest = [row for row in rows if row[0] is None]
        queues_left = [(row[15], row[3], row[2] == "gated") for row in rest if row[15] is not None]
        return jobs, queues_left, len(queues_left) < len(rest)

    def _claim_gated(self, request: ClaimRequest, queue_id: str, limit: int, now: datetime | None) -> list[ClaimedJob]:
        rows = self._rows("transitions/claim_gated", {**_params(request, limit, now), "queue_id": queue_id})
        return [ClaimedJob._make(row[:-1]) for row in rows]

    def start(self, lease: Lease, *, now: datetime | None) -> datetime | None:
        row = self._row("transitions/start", {"job_id": lease.job_id, "lease_token": lease.lease_token, "now": now})
        return row[0] if row else None


def _params(request: ClaimRequest, limit: int, now: datetime | None) -> dict[str, Any]:
    return {
        "job_types": list(request.job_types) if request.job_types is not None else None,
        "worker_id": request.worker_id,
        "lease_ms": request.lease_ms,
        "start": request.start,
        "limit": limit,
        "now": now,
    }
