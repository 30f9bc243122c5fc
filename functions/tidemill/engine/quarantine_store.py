"""What the verbs of the quarantine ask of the world; `store/quarantines.py` fulfils it on Postgres. Fingerprints are hex."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from tidemill.domain.losses import OpenQuarantine, Stepped
from tidemill.ports import FamilyStore
from tidemill.ports.losses import LossStore


class QuarantineStore(FamilyStore, LossStore, Protocol):
    """Quarantined fingerprints and the jobs under them."""

    def ask_quarantine(self, project_id: str, fingerprint: str, verb: str) -> str | None:
        """Asks for a release or discard; the verb that is under way now, None if the project has no such quarantine."""

    def open_quarantine(self, project_id: str | None, fingerprint: str | None) -> OpenQuarantine | None:
        """Locks a fingerprint (any, or this one) that still has to be worked on and that nobody is at."""

    def release_quarantined(self, project_id: str, fingerprint: str, after: str | None, limit: int, *, now: datetime | None) -> Stepped:
        """Lets those that are set aside among the next `limit` jobs go."""

    def discard_quarantined(self, project_id: str, fingerprint: str, after: str | None, limit: int, *, now: datetime | None) -> Stepped:
        """Cancels those that are set aside among the next `limit` jobs."""

    def note_quarantine(self, project_id: str, fingerprint: str, position: str | None, *, is_done: bool) -> None:
        """Where the verb goes on; `is_done`: it has ended."""

    def end_release(self, project_id: str, fingerprint: str) -> bool:
        """Ends a release unless a job is left under it, or somebody may still add one."""

    def forget_losses(self, window_ms: int, limit: int, *, now: datetime | None) -> int:
        """How many fingerprints were forgotten whose losses no longer count."""
