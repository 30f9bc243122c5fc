"""Bulk operations: plans, counts, and sets of jobs moved by one statement each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable

from tidemill.domain.errors import Unavailable
from tidemill.domain.keys import compact_json
from tidemill.domain.operations import Operation
from tidemill.engine.operation_store import Outcome, PhaseCount
from tidemill.store.base import array
from tidemill.store.job_filters import REMEMBERED, filters_of, walk_of
from tidemill.store.lists import Lists, Place
from tidemill.store.statements import sql

LOCK_MS: Final = 100
COUNTED: Final = ("queue", "job_type", "job_type_prefix", "error_class", "tag", "any_tag", "priority", "created_after", "created_before")


class Operations(Lists):
    """Implements engine.operation_store on top of the lists' walks."""

    @contextmanager
    def bounded(self) -> Iterator[None]:
        try:
            with self.transaction():
                yield
        except (LockNotAvailable, DeadlockDetected) as error:
            raise Unavailable("somebody else holds these jobs at the moment: try again") from error

    def has_queue(self, project_id: str, name: str) -> bool:
        return self._row("queues/list", {"project_id": project_id, "name": name, "after": None, "limit": 1}) is not None

    def create_operation(self, project_id: str, plan: Mapping[str, Any], *, now: datetime | None) -> None:
        texts = {name: compact_json(plan[name]) for name in ("filter", "counts", "sample")}
        self._row("operations/create", {"queue_id": None, **plan, **texts, "project_id": project_id, "now": now})

    def operation(self, project_id: str, operation_id: str, *, lock: bool = False) -> Operation | None:
        row = self._row("operations/read", {"project_id": project_id, "id": operation_id, "lock": lock})
        return Operation(*row) if row else None

    def operations(self, project_id: str, *, before: str | None, limit: int) -> list[Operation]:
        return [Operation(*row) for row in self._rows("operations/list", {"project_id": project_id, "before": before, "limit": limit})]

    def begin_operation(
        self, operation_id: str, *, allow_drift: bool, total: int | None, by: str | None, closes: bool = False, now: datetime | None
    ) -> bool:
        params = {"id": operation_id, "allow_drift": allow_drift, "total": total, "by": by, "closes": closes, "now": now}
        return self._row("operations/begin", params) is not None

    def end_operation(self, operation_id: str, status: str, error: str | None = None, *, now: datetime | None) -> bool:
        return self._row("operations/end", {"id": operation_id, "status": status, "error": error, "now": now}) is not None

    def take_operation(self, skip: Sequence[str]) -> Operation | None:
        row = self._row("operations/take", {"skip": list(skip), "lock_ms": str(LOCK_MS)})
        return Operation(*row) if row else None

    def moved_operation(
        self, operation_id: str, *, position: str | None, is_walked: bool, again: Sequence[str], affected: int, skips: Mapping[str, int]
    ) -> None:
        params = {"id": operation_id, "position": position, "is_walked": is_walked, "again": list(again), "affected": affected}
        self._run("operations/moved", params | {"skips": compact_json(dict(skips))})

    def ask_undo(self, operation_id: str, *, by: str | None, now: datetime | None) -> bool:
        return self._row("operations/ask_undo", {"id": operation_id, "by": by, "now": now}) is not None

    def undone_operation(
        self, operation_id: str, *, position: str | None, undone: int, skips: Mapping[str, int], over: bool, now: datetime | None
    ) -> None:
        params = {"id": operation_id, "position": position, "undone": undone, "skips": compact_json(dict(skips)), "over": over, "now": now}
        self._run("operations/undone", params)

    def affected_jobs(self, operation_id: str, *, after: str | None, limit: int) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._rows("operations/affected", {"id": operation_id, "after": after, "limit": limit})]

    def counts_phases(self, query: Mapping[str, Any]) -> bool:
        return set(query) - {"state"} <= set(COUNTED) and set(query["state"]) <= set(REMEMBERED)

    def count_phase(self, project_id: str, state: str, query: Mapping[str, Any], *, after: str | None, limit: int) -> PhaseCount:
        params = {"project_id": project_id, "phase": REMEMBERED[state], "after": after, "limit": limit}
        rows = self._rows("operations/count_phase", {**_conditions(query), **params})
        return PhaseCount([(row[0], row[1], row[2], row[3]) for row in rows if row[2]], rows[0][4])

    def kinds_of(self, project_id: str, job_ids: Sequence[str]) -> list[tuple[str, str, str | None, int, str]]:
        rows = self._rows("operations/kinds_of", {"project_id": project_id, "job_ids": list(job_ids)})
        return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]

    def members(
        self, project_id: str, query: Mapping[str, Any], *, after: str | None, descending: bool, limit: int
    ) -> tuple[list[str], str | None]:
        if self.counts_phases(query) and len(query["state"]) == 1:
            phase = REMEMBERED[query["state"][0]]
            params = {"project_id": project_id, "phase": phase, "descending": descending, "after": after, "limit": limit}
            rows = self._rows("operations/walk_phase", {**_conditions(query), **params})
            return [row[0] for row in rows if row[0]], rows[0][1]
        walk = walk_of({**query, "sort": "-created_at" if descending else "created_at"})
        place = Place(None, after) if after else None
        places = self.walk(walk.name, project_id, place, descending=descending, limit=limit, values=walk.values)
        ids = [place.id for place in places]
        matching = self.matching(project_id, ids, filters_of(query)) if ids else []
        return matching, ids[-1] if len(ids) == limit else None

    def matching_jobs(self, project_id: str, query: Mapping[str, Any], job_ids: Sequence[str]) -> list[str]:
        return self.matching(project_id, job_ids, filters_of(query))

    def unchanged(self, project_id: str, job_ids: Sequence[str], since: datetime) -> list[str]:
        rows = self._rows("operations/unchanged", {"project_id": project_id, "job_ids": array(job_ids), "since": since})
        return [row[0] for row in rows]

    def move_many(self, statement: str, job_ids: Sequence[str], values: Mapping[str, Any], *, now: datetime | None) -> list[Outcome]:
        if not job_ids:
            return []
        rows = self._rows(f"transitions/{statement}", {**values, "job_ids": array(job_ids), "now": now})
        return list({row[0]: Outcome(*row) for row in rows}.values())  # of two rows for one job the last counts

    def prune_operations(self, kept_ms: int, limit: int, *, now: datetime | None) -> tuple[int, int]:
        row = self._row("operations/prune", {"kept_ms": kept_ms, "limit": limit, "now": now})
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def queue_jobs(self, queue_id: str, limit: int) -> list[str]:
        return [row[0] for row in self._rows("queues/jobs", {"queue_id": queue_id, "limit": limit})]

    def ask_queue_to_stop(self, queue_id: str, limit: int, *, now: datetime | None) -> int:
        row = self._row("queues/ask_to_stop", {"queue_id": queue_id, "limit": limit, "now": now})
        return int(row[0]) if row else 0

    def remove_queue(self, queue_id: str, operation_id: str) -> bool:
        row = self._row("operations/removal", {"id": operation_id})
        return row is not None and bool(row[0]) and self.remove_closed_queue(queue_id, row[0])

    def removal_of(self, queue_id: str) -> str | None:
        """The operation that is removing the queue."""
        row = self._row("operations/removal_of", {"queue_id": queue_id})
        return row[0] if row else None

    def held_by_queue(self, queue_id: str, limit: int) -> int:
        """How many jobs a queue holds, leased and ended ones included; at most `limit`."""
        row = self._row("queues/leases", {"queue_id": queue_id, "limit": limit})
        return min(limit, len(self.queue_jobs(queue_id, limit)) + (row[0] if row else 0))

    def close_queue(self, project_id: str, name: str, *, is_closed: bool = True) -> tuple[str, str] | None:
        """(queue id, this transaction's id); None if the project has no such queue."""
        row = self._row("queues/close", {"project_id": project_id, "name": name, "is_closed": is_closed})
        return (row[0], row[1]) if row else None

    def open_queue(self, queue_id: str) -> None:
        self._row("queues/open", {"queue_id": queue_id})

    def remove_closed_queue(self, queue_id: str, closed_xid: str) -> bool:
        """False if it holds something, or while a transaction from before it was closed may still put something into it."""
        return self._row("queues/remove", {"queue_id": queue_id, "closed_xid": closed_xid}) is not None

    def _run(self, name: str, params: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        return self._conn.execute(sql(name), params)


def _conditions(query: Mapping[str, Any]) -> dict[str, Any]:
    return {"tags" if name == "tag" else "any_tags" if name == "any_tag" else name: query.get(name) for name in COUNTED}
