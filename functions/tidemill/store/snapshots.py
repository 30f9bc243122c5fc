"""The four lists of the dashboard."""

from __future__ import annotations

from tidemill.store.base import Adapter


class Snapshots(Adapter):
    """Bounded reads. None of it locks."""

    def completed_ids(self, project_id: str, hours: int, limit: int) -> list[str]:
        """Jobs that completed within so many hours, the last first."""
        return [row[0] for row in self._rows("snapshot/completed", {"project_id": project_id, "hours": hours, "limit": limit})]

    def failed_ids(self, project_id: str, hours: int, limit: int) -> list[str]:
        """Jobs that died within so many hours and are not settled, the last first."""
        return [row[0] for row in self._rows("snapshot/failed", {"project_id": project_id, "hours": hours, "limit": limit})]

    def snapshot_counts(self, project_id: str, *, completed_hours: int, failed_hours: int, most: int) -> dict[str, int]:
        """How many stand in each list, counted up to `most`."""
        params = {"project_id": project_id, "completed_hours": completed_hours, "failed_hours": failed_hours, "most": most}
        row = self._row("snapshot/counts", params)
        assert row is not None
        return dict(zip(("enqueued", "running", "completed", "failed"), map(int, row), strict=True))
