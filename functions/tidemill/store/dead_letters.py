"""Dead letters and their kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tidemill.engine.dead_letters import Latest
from tidemill.store.lists import Place
from tidemill.store.reads import Reads, Row
from tidemill.store.statements import sql


class Grave(NamedTuple):
    """Where a walk over dead letters stands: when one died, its id, its job's."""

    key: datetime
    id: str
    job_id: str


class DeadLetters(Reads):
    """Implements engine.dead_letters.DeadLetterStore and ErrorGroupStore, and reads for the API."""

    def graves(
        self,
        project_id: str,
        after: Place | None,
        *,
        error_group: str | None = None,
        job_ids: Sequence[str] | None = None,
        descending: bool,
        limit: int,
    ) -> list[Grave]:
        """The next open dead letters behind a place: of all, of one kind of error, or of a few jobs; fewer than `limit` mean the end."""
        params = {
            "project_id": project_id,
            "descending": descending,
            "after": after.id if after else None,
            "after_key": after.key if after else None,
            "limit": limit,
        }
        if job_ids is None:
            rows = self._rows("dead_letters/walk", params | {"error_group": error_group})
        else:
            rows = self._rows("dead_letters/of_jobs", params | {"job_ids": list(job_ids)})
        return [Grave(row[1], row[0], row[2]) for row in rows]

    def dead_letters_by_id(self, project_id: str, ids: Sequence[str], *, payload: bool = False) -> list[Row]:
        """Those that the project has, in the order of the ids; `payload` is null unless asked for."""
        found = self._dicts("dead_letters/by_id", {"project_id": project_id, "ids": list(ids), "payload": payload})
        by_id = {row["id"]: row for row in found}
        return [by_id[one] for one in ids if one in by_id]

    def error_groups(
        self, project_id: str, filters: Mapping[str, Any], after: tuple[datetime, bytes] | None, *, limit: int, rows: int
    ) -> list[Row]:
        """Kinds of errors with open dead letters, the newest kind first. `filters`: the names that dead_letters/groups takes."""
        names = ("queue", "job_type", "job_type_prefix", "error_class")
        place = {"after_key": after[0] if after else None, "after": after[1] if after else None}
        return self._dicts(
            "dead_letters/groups",
            {**{name: filters.get(name) for name in names}, **place, "project_id": project_id, "limit": limit, "rows": rows},
        )

    def latest_dead_letter(self, project_id: str, job_id: str) -> Latest | None:
        row = self._row("dead_letters/latest", {"project_id": project_id, "job_id": job_id})
        return Latest(*row) if row else None

    def discard(self, project_id: str, job_id: str, *, by: str | None, note: str | None, now: datetime | None) -> list[str]:
        params = {"project_id": project_id, "job_id": job_id, "by": by, "note": note, "now": now}
        return [row[0] for row in self._rows("dead_letters/discard", params)]

    def note_dead_letter(self, dead_letter_id: str, note: str) -> None:
        self._conn.execute(sql("dead_letters/note"), {"id": dead_letter_id, "note": note})

    def fold_errors(self, limit: int, *, now: datetime | None = None) -> int:
        row = self._row("scheduler/fold_errors", {"limit": limit, "now": now})
        return int(row[0]) if row else 0

    def prune_errors(self, hours_ms: int, groups_ms: int, limit: int, *, now: datetime | None) -> tuple[int, int]:
        row = self._row("scheduler/prune_errors", {"hours_ms": hours_ms, "groups_ms": groups_ms, "limit": limit, "now": now})
        return (int(row[0]), int(row[1])) if row else (0, 0)
