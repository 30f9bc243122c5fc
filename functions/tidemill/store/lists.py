"""Pages of jobs: walks along an index, each of bounded length, and the filter over what a walk finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tidemill.store.base import Adapter


class Place(NamedTuple):
    """Where a walk stands: the sort key (None where ids alone are the order) and the id."""

    key: datetime | None
    id: str


class Lists(Adapter):
    """Walks and matches. None of it locks."""

    def walk(
        self, name: str, project_id: str, after: Place | None, *, descending: bool, limit: int, values: Mapping[str, Any]
    ) -> list[Place]:
        """The next places of the walk `lists/<name>` behind `after`; fewer than `limit` means that it has come to its end."""
        params = {
            "project_id": project_id,
            "descending": descending,
            "after": after.id if after else None,
            "after_key": after.key if after else None,
            "limit": limit,
            **values,
        }
        return [Place(key, job_id) for job_id, key in self._rows(f"lists/{name}", params)]

    def matching(self, project_id: str, ids: Sequence[str], filters: Mapping[str, Any]) -> list[str]:
        """Those of the jobs that match, in the order given. `filters`: every parameter of lists/matching but these two."""
        return [row[0] for row in self._rows("lists/matching", {"project_id": project_id, "ids": list(ids), **filters})]
