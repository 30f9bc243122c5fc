"""API keys: only digests are stored."""

from __future__ import annotations

from typing import NamedTuple

from tidemill.store.base import Adapter
from tidemill.store.statements import sql


class LiveKey(NamedTuple):
    """A key that is valid now. `is_use_untold`: its last use was noted more than a minute ago."""

    project_id: str
    key_hash: bytes
    scopes: list[str]
    is_use_untold: bool


class ApiKeys(Adapter):
    """Finds, makes, lists and revokes keys."""

    def live_key(self, key_id: str) -> LiveKey | None:
        """The key, unless it has expired or was revoked."""
        row = self._row("keys/live", {"key_id": key_id})
        return LiveKey._make(row) if row else None

    def note_use(self, key_id: str) -> None:
        """Notes that the key was used now, at most once a minute."""
        self._conn.execute(sql("keys/note_use"), {"key_id": key_id})
