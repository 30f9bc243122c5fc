"""API keys: only digests are stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tidemill.domain.sessions import OVERLAP_SECS
from tidemill.ports.signing import SigningKey
from tidemill.store.reads import Reads, Row
from tidemill.store.statements import sql


class LiveKey(NamedTuple):
    """A key that is valid now. `is_use_untold`: its last use was noted more than a minute ago."""

    project_id: str
    key_hash: bytes
    scopes: list[str]
    is_use_untold: bool


class ApiKeys(Reads):
    """Finds, makes, lists and revokes keys."""

    def live_key(self, key_id: str) -> LiveKey | None:
        """The key, unless it has expired or was revoked."""
        row = self._row("keys/live", {"key_id": key_id})
        return LiveKey._make(row) if row else None

    def note_use(self, key_id: str) -> None:
        """Notes that the key was used now, at most once a minute."""
        self._conn.execute(sql("keys/note_use"), {"key_id": key_id})

    def live_session(self, family_id: str, user_id: str) -> bool:
        """Does the login last?"""
        return self._row("sessions/live", {"family_id": family_id, "user_id": user_id}) is not None

    def create_key(
        self,
        project_id: str,
        key_id: str,
        name: str,
        digest: bytes,
        scopes: Sequence[str],
        expires_at: datetime | str | None,
        created_by: str | None = None,
    ) -> Row:
        """The new key's row."""
        params = {"id": key_id, "project_id": project_id, "name": name, "key_hash": digest, "created_by": created_by}
        return self._dicts("keys/create", params | {"scopes": list(scopes), "expires_at": expires_at})[0]

    def api_keys(self, project_id: str, *, after: str | None, limit: int) -> list[Row]:
        """The project's keys in the order they were made, with those that are over."""
        return self._dicts("keys/list", {"project_id": project_id, "after": after, "limit": limit})

    def api_key(self, project_id: str, key_id: str) -> Row | None:
        """The key's row; None if the project has no such key."""
        found = self._dicts("keys/show", {"project_id": project_id, "id": key_id})
        return found[0] if found else None

    def revoke_key(self, project_id: str, key_id: str) -> Row | None:
        """The key's row after it; None if the project has no such key."""
        found = self._dicts("keys/revoke", {"project_id": project_id, "id": key_id})
        return found[0] if found else None

    def retire_key(self, project_id: str, key_id: str, overlap_ms: int) -> Row | None:
        """The key's row after it was told to end soon; None if the project has no such live key."""
        found = self._dicts("keys/retire", {"project_id": project_id, "id": key_id, "overlap_ms": overlap_ms})
        return found[0] if found else None

    def signing_keys(self, purpose: str = "cursor") -> list[SigningKey]:
        """The keys for cursors or sessions, the newest first."""
        params = {"purpose": purpose, "overlap_secs": 86_400 if purpose == "cursor" else OVERLAP_SECS}
        return [SigningKey._make(row) for row in self._rows("keys/signing", params)]
