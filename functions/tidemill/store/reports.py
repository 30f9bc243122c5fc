"""What a running job says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidemill.domain.jobs import Lease, LogLine, ParentResult
from tidemill.store.base import Adapter


class Reports(Adapter):
    """Implements ports.ReportStore."""

    def progress(self, lease: Lease, current: int, total: int | None, message: str | None, *, now: datetime | None) -> bool:
        return self._said("leases/progress", lease, {"current": current, "total": total, "message": message, "now": now})

    def checkpoint(self, lease: Lease, data_json: str, cursor: str | None, *, now: datetime | None) -> bool:
        return self._said("leases/checkpoint", lease, {"data": data_json, "cursor": cursor, "now": now})

    def output(self, lease: Lease, data_json: str, *, now: datetime | None) -> bool:
        return self._said("leases/output", lease, {"data": data_json, "now": now})

    def logs(self, lease: Lease, lines: Sequence[LogLine], *, keep: int) -> int | None:
        params = {
            "job_id": lease.job_id,
            "lease_token": lease.lease_token,
            "at": [line.ts for line in lines],
            "levels": [line.level for line in lines],
            "messages": [line.message for line in lines],
            "keep": keep,
        }
        row = self._row("leases/logs", params)
        return int(row[0]) if row else None

    def parents(self, lease: Lease, *, after: str, limit: int, size_bytes: int) -> list[ParentResult] | None:
        params = {"job_id": lease.job_id, "lease_token": lease.lease_token, "after": after, "limit": limit, "bytes": size_bytes}
        rows = self._rows("dependencies/results", params)
        return [ParentResult(*row) for row in rows if row[0] is not None] if rows else None

    def hold_lease(self, project_id: str, lease: Lease) -> tuple[str | None, str | None] | None:
        params = {"project_id": project_id, "job_id": lease.job_id, "lease_token": lease.lease_token}
        row = self._row("leases/holder", params)
        return (row[0], row[1]) if row else None

    def foreign(self, project_id: str, job_ids: Sequence[str]) -> frozenset[str]:
        """Those of the jobs that another project has."""
        rows = self._rows("leases/foreign", {"project_id": project_id, "job_ids": list(job_ids)})
        return frozenset(row[0] for row in rows)

    def _said(self, name: str, lease: Lease, values: dict[str, Any]) -> bool:
        return self._row(name, {"job_id": lease.job_id, "lease_token": lease.lease_token, **values}) is not None
