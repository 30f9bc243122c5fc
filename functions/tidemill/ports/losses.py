"""Lost leases and crashes, counted by what the jobs are (their fingerprints)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tidemill.domain.losses import Counted, Loss


class LossStore(Protocol):
    """Counts losses and sets aside what they lead to. Fingerprints are hex."""

    def count_losses(self, losses: Sequence[Loss], window_ms: int, *, now: datetime | None) -> list[Counted]:
        """One row per job that is there; the fingerprints' rows stay locked until the transaction ends."""

    def impose_quarantine(self, project_id: str, fingerprint: str, *, now: datetime | None) -> bool:
        """Quarantines the fingerprint; False if it was already."""

    def sweep_quarantined(self, project_id: str, fingerprint: str, limit: int, *, now: datetime | None) -> list[tuple[str, int]]:
        """(job, traits) of those set aside among the next `limit` waiting jobs; nothing while another is at it."""
