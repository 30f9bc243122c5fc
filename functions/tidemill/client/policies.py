"""Named retry policies and the audit log over the API (API.md §1, §4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tidemill.client.calls import Calls, Thing


class PolicyCalls(Calls):
    """Mixed into `Client`. Policies and notes come as the API's own JSON objects."""

    def list_retry_policies(self) -> list[Thing]:
        """All named retry policies of the project."""
        return list(self._pages("/v1/retry-policies", {}))

    def get_retry_policy(self, name: str) -> Thing:
        """One policy. NotFound."""
        found: Thing = self._send("GET", _path(name))
        return found

    def create_retry_policy(self, name: str, **fields: Any) -> Thing:
        """A new named policy; fields as inline in a job (`strategy`, `base_delay_ms`, `max_attempts` …)."""
        made: Thing = self._send("POST", "/v1/retry-policies", {"name": name, **fields}, repeatable=False)
        return made

    def edit_retry_policy(self, name: str, **changes: Any) -> Thing:
        """The policy with these fields changed; jobs that name it follow from their next failure on. NotFound."""
        found: Thing = self._send("PATCH", _path(name), changes)
        return found

    def delete_retry_policy(self, name: str) -> None:
        """Removes it: jobs and queues that name it fall back to the default. NotFound."""
        self._send("DELETE", _path(name))

    def audit(self, *, page_size: int = 50, **filters: Any) -> Iterator[Thing]:
        """Who changed what, newest first. Filters: `action`, `target_kind`, `target_id`, `actor_kind`, `since`, `until` …; None = any."""
        return self._pages("/v1/audit", {"limit": page_size, **{name: value for name, value in filters.items() if value is not None}})


def _path(name: str) -> str:
    return f"/v1/retry-policies/{quote(name, safe='')}"
