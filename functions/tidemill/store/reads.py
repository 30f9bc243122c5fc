"""Jobs as the API shows them: reads only, each bounded, none of which locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.store.base import Adapter
from tidemill.store.statements import sql

Row = dict[str, Any]


class Reads(Adapter):
    """Rows as dictionaries by column name. JSON columns are text; instants carry the session's offset."""

    def jobs_by_id(self, project_id: str, job_ids: Sequence[str], *, payload: bool = False) -> list[Row]:
        """Those of the jobs that the project has, in the order of the ids; `payload` is null unless asked for."""
        found = self._dicts("jobs/by_id", {"project_id": project_id, "job_ids": list(job_ids), "payload": payload})
        by_id = {row["id"]: row for row in found}
        return [by_id[job_id] for job_id in job_ids if job_id in by_id]

    def carried(self, job_id: str) -> Row:
        """Result, checkpoint, its cursor and output of a job; all None if it has gone."""
        found = self._dicts("jobs/carried", {"job_id": job_id})
        return found[0] if found else {"result": None, "checkpoint": None, "checkpoint_cursor": None, "output": None}

    def executions(self, job_id: str, limit: int) -> list[Row]:
        """The last ended attempts, the oldest of them first."""
        return self._dicts("jobs/executions", {"job_id": job_id, "limit": limit})

    def log_lines(self, job_id: str, *, after: int, levels: Sequence[str], limit: int) -> list[Row]:
        """Log lines behind an id."""
        return self._dicts("jobs/logs", {"job_id": job_id, "after": after, "levels": list(levels), "limit": limit})

    def dead_letters(self, job_id: str) -> list[Row]:
        """The times at which the job died."""
        return self._dicts("jobs/dead_letters", {"job_id": job_id})

    def schema_version(self) -> int:
        """The version that the migrator has reached."""
        row = self._row("system/schema_version", {})
        return int(row[0]) if row else 0

    def _dicts(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        cursor = self._conn.execute(sql(name), params)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
