"""What a project sets up: queues and retry policies; and its workers to look at. Rows are dictionaries by column name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.domain.keys import compact_json
from tidemill.store.reads import Reads, Row


class Configures(Reads):
    """Few rows that change rarely; every list is a page by name or id."""

    def queues(self, project_id: str, *, name: str | None = None, after: str | None = None, limit: int = 1) -> list[Row]:
        """The project's queues by name, or the one of this name."""
        return self._dicts("queues/list", {"project_id": project_id, "name": name, "after": after, "limit": limit})

    def create_queue(self, project_id: str, queue_id: str, name: str, fields: dict[str, Any], policy_id: str | None) -> bool:
        """False if the name is taken."""
        params = {"id": queue_id, "project_id": project_id, "name": name, "fields": compact_json(fields), "policy_id": policy_id}
        return self._row("queues/create", params) is not None

    def edit_queue(self, project_id: str, name: str, fields: dict[str, Any], *, sets_policy: bool, policy_id: str | None) -> bool:
        """False if there is no such queue."""
        params = {"project_id": project_id, "name": name, "fields": compact_json(fields)}
        return self._row("queues/edit", params | {"sets_policy": sets_policy, "policy_id": policy_id}) is not None

    def policies(self, project_id: str, *, name: str | None = None, after: str | None = None, limit: int = 1) -> list[Row]:
        """The project's retry policies by name, or the one of this name."""
        return self._dicts("policies/list", {"project_id": project_id, "name": name, "after": after, "limit": limit})

    def create_policy(self, project_id: str, policy_id: str, name: str, fields: dict[str, Any]) -> bool:
        """False if the name is taken."""
        params = {"id": policy_id, "project_id": project_id, "name": name, "fields": compact_json(fields)}
        return self._row("policies/create", params) is not None

    def edit_policy(self, project_id: str, name: str, fields: dict[str, Any]) -> bool:
        """False if there is no such policy."""
        return self._row("policies/edit", {"project_id": project_id, "name": name, "fields": compact_json(fields)}) is not None

    def delete_policy(self, project_id: str, name: str) -> bool:
        """False if there is no such policy."""
        return self._row("policies/delete", {"project_id": project_id, "name": name}) is not None

    def workers(
        self,
        project_id: str,
        *,
        worker_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        after: str | None = None,
        limit: int = 1,
    ) -> list[Row]:
        """The project's workers in the order they came, those that match (name, version, queue, live), or the one of this id."""
        params = {"project_id": project_id, "id": worker_id, "after": after, "limit": limit}
        wanted = {name: (filters or {}).get(name) for name in ("name", "version", "queue", "live")}
        return self._dicts("workers/list", params | wanted)

    def worker_load(self, project_id: str, limit: int) -> list[Row]:
        """Figures per version of the last `limit` workers."""
        return self._dicts("workers/load", {"project_id": project_id, "limit": limit})
