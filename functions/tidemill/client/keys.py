"""API keys over the API: who this key is, and the keys of its project."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidemill.client.calls import Calls, Thing
from tidemill.client.fields import instant


class KeyCalls(Calls):
    """Mixed into `Client`. Keys come as the API's own JSON objects (API.md §1)."""

    def me(self) -> Thing:
        """The caller: key or user, project, scopes."""
        found: Thing = self._send("GET", "/v1/me")
        return found

    def list_keys(self) -> list[Thing]:
        """The project's keys in the order they were made, with those that are over."""
        return list(self._pages(self._keys(), {}))

    def create_key(self, name: str, scopes: Sequence[str], *, expires_at: datetime | None = None) -> Thing:
        """A new key; its text is in `api_key`, here and nowhere else."""
        until = instant("expires_at", expires_at) if expires_at is not None else None
        made: Thing = self._send("POST", self._keys(), {"name": name, "scopes": list(scopes), "expires_at": until}, repeatable=False)
        return made

    def rotate_key(self, key_id: str, *, overlap_ms: int | None = None) -> Thing:
        """A new key in place of this one, which ends after the overlap (default: an hour)."""
        body = {} if overlap_ms is None else {"overlap_ms": overlap_ms}
        made: Thing = self._send("POST", f"/v1/api-keys/{key_id}/rotate", body, repeatable=False)
        return made

    def revoke_key(self, key_id: str) -> Thing:
        """Ends the key; gateways may remember it for up to a minute."""
        found: Thing = self._send("DELETE", f"/v1/api-keys/{key_id}")
        return found

    def _keys(self) -> str:
        return f"/v1/projects/{self.me()['project_id']}/api-keys"
