"""Jobs go out under leases."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from psycopg import Connection

from tidemill.domain.jobs import ClaimedJob, ClaimRequest, Lease
from tidemill.store.base import Adapter, array, texts
from tidemill.store.watermarks import Watermarks

LOOKS: Final = 20
MANY: Final = 64
"""From here on, a second round trip costs less than what reading jobs under a gated queue's lock takes from other claims."""


class Claims(Adapter):
    """Implements ports.ClaimStore."""

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn)
        self.watermarks = Watermarks()
        self.met_others = False
        """Whether the last claim left a queue to another claim that was at it: there may be something soon."""
        self.met_gates = False
        """Whether the last claim was at a gated queue: what it let nobody take may be free at any time, and nobody is rung then."""
        self.is_spent = False
        """Whether the last claim brought many from gated queues, and left nothing that may go yet in any queue."""

    def claim(self, request: ClaimRequest, *, now: datetime | None, wait_ms: int = 0) -> list[ClaimedJob]:
        self.met_others = self.met_gates = self.is_spent = False
        wait_until = time.monotonic() + wait_ms / 1000
        jobs, rest = self._claim_plain(request, request.queues, request.limit, now)
        spent = [False] if jobs else []  # of each queue that had some, whether it is known to have no more
        for queue_id, name, gated in rest:
            room = request.limit - len(jobs)
            if room <= 0:
                spent.append(False)
                break
            self.met_gates |= gated
            if gated:
                # who has jobs in hand does not let them wait
                left_ms = 0 if jobs else max(0, int((wait_until - time.monotonic()) * 1000))
                more, is_spent = self._claim_gated(request, queue_id, room, now, left_ms)
            else:
                more, is_spent = self._claim_plain(request, [name], room, now)[0], False
            spent += [is_spent] if more else []
            jobs += more
        self.is_spent = bool(spent) and all(spent)
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
            "queues": texts(names),
            "since_queues": array(queues),
            "since_priorities": array(priorities),
            "since_at": texts([at.isoformat() for at in instants]),
        }
        rows = self._rows("transitions/claim", params)
        jobs = [ClaimedJob._make(row[:-1]) for row in rows if row[0] is not None]
        if now is None:
            self.watermarks.claimed(job_types, jobs, is_full=len(jobs) >= limit)
        rest = [row for row in rows if row[0] is None]
        queues_left = [(row[15], row[3], row[2] == "gated") for row in rest if row[15] is not None]
        return jobs, queues_left, len(queues_left) < len(rest)

    def _claim_gated(
        self, request: ClaimRequest, queue_id: str, limit: int, now: datetime | None, wait_ms: int
    ) -> tuple[list[ClaimedJob], bool]:
        """Jobs of the queue, and whether they are many and nothing else may go there yet."""
        params = {**_params(request, limit, now), "queue_id": queue_id, "wait_ms": wait_ms}
        if limit >= MANY:
            ((job_ids, lease_tokens, is_met),) = self._rows("transitions/claim_gated_many", params)
            self.met_others |= is_met
            if not job_ids:
                return [], False
            jobs, is_spent = self._whole(queue_id, job_ids, lease_tokens)
            return jobs, is_spent and len(jobs) >= MANY
        rows = self._rows("transitions/claim_gated", params)
        self.met_others |= any(row[0] is None for row in rows)
        taken = [row for row in rows if row[0] is not None]
        # The statement's snapshot is older than those that the function takes: of a job that was committed in between it reads nothing.
        late = [row for row in taken if row[2] is None]
        read = self._whole(queue_id, array(row[0] for row in late), array(row[1] for row in late))[0] if late else []
        whole = {job.job_id: job for job in read}
        return [job for row in taken if (job := whole.get(row[0]) if row[2] is None else ClaimedJob._make(row[:-1])) is not None], False

    def _whole(self, queue_id: str, job_ids: str, lease_tokens: str) -> tuple[list[ClaimedJob], bool]:
        """The jobs of these leases, in order; without those whose lease has ended meanwhile. And whether nothing else may go there yet."""
        rows = self._rows("jobs/claimed", {"queue_id": queue_id, "job_ids": job_ids, "lease_tokens": lease_tokens})
        return [ClaimedJob._make(row[:-2]) for row in rows], bool(rows) and rows[0][-1]

    def start(self, lease: Lease, *, now: datetime | None) -> datetime | None:
        row = self._row("transitions/start", {"job_id": lease.job_id, "lease_token": lease.lease_token, "now": now})
        return row[0] if row else None


def _params(request: ClaimRequest, limit: int, now: datetime | None) -> dict[str, Any]:
    return {
        "job_types": texts(request.job_types) if request.job_types is not None else None,
        "worker_id": request.worker_id,
        "lease_ms": request.lease_ms,
        "start": request.start,
        "limit": limit,
        "now": now,
    }
