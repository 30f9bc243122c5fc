"""Fingerprints that take their workers with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidemill.domain.losses import Counted, Loss, OpenQuarantine, Stepped
from tidemill.store.reads import Reads, Row
from tidemill.store.statements import sql


class Quarantines(Reads):
    """Implements ports.LossStore and engine.quarantine_store, and what the API lists."""

    def count_losses(self, losses: Sequence[Loss], window_ms: int, *, now: datetime | None) -> list[Counted]:
        params = {
            "job_ids": [loss.job_id for loss in losses],
            "reasons": [loss.reason for loss in losses],
            "exit_codes": [loss.exit_code for loss in losses],
            "window_ms": window_ms,
            "now": now,
        }
        return [Counted(*row) for row in self._rows("quarantine/count_losses", params)]

    def impose_quarantine(self, project_id: str, fingerprint: str, *, now: datetime | None) -> bool:
        return self._row("quarantine/impose", _key(project_id, fingerprint) | {"now": now}) is not None

    def sweep_quarantined(self, project_id: str, fingerprint: str, limit: int, *, now: datetime | None) -> list[tuple[str, int]]:
        rows = self._rows("transitions/sweep_quarantined", _key(project_id, fingerprint) | {"limit": limit, "now": now})
        return [(row[0], row[1]) for row in rows]

    def ask_quarantine(self, project_id: str, fingerprint: str, verb: str) -> str | None:
        row = self._row("quarantine/ask", _key(project_id, fingerprint) | {"verb": verb})
        return row[0] if row else None

    def open_quarantine(self, project_id: str | None, fingerprint: str | None) -> OpenQuarantine | None:
        row = self._row("quarantine/next_open", {"project_id": project_id, "fingerprint": fingerprint})
        return OpenQuarantine(*row) if row else None

    def release_quarantined(self, project_id: str, fingerprint: str, after: str | None, limit: int, *, now: datetime | None) -> Stepped:
        return self._step("release", project_id, fingerprint, after=after, limit=limit, now=now)

    def discard_quarantined(self, project_id: str, fingerprint: str, after: str | None, limit: int, *, now: datetime | None) -> Stepped:
        return self._step("discard", project_id, fingerprint, after=after, limit=limit, now=now)

    def note_quarantine(self, project_id: str, fingerprint: str, position: str | None, *, is_done: bool) -> None:
        self._conn.execute(sql("quarantine/note"), _key(project_id, fingerprint) | {"position": position, "is_done": is_done})

    def end_release(self, project_id: str, fingerprint: str) -> bool:
        key = _key(project_id, fingerprint)
        return self._row("quarantine/lock_last", key) is not None and self._row("quarantine/end_release", key) is not None

    def forget_losses(self, window_ms: int, limit: int, *, now: datetime | None) -> int:
        row = self._row("quarantine/forget", {"window_ms": window_ms, "limit": limit, "now": now})
        return int(row[0]) if row else 0

    def quarantines(
        self,
        project_id: str,
        *,
        fingerprint: str | None = None,
        before: tuple[datetime, str] | None = None,
        counted: int = 100,
        limit: int = 1,
    ) -> list[Row]:
        """Quarantined fingerprints, the newest first, or the one; jobs of each are counted up to `counted`."""
        at, last = before or (None, None)
        params = {"before": at, "before_fingerprint": last, "counted": counted, "limit": limit}
        return self._dicts("quarantine/list", {"project_id": project_id, "fingerprint": fingerprint, **params})

    def _step(self, verb: str, project_id: str, fingerprint: str, **params: Any) -> Stepped:
        rows = self._rows(f"transitions/{verb}_quarantined", _key(project_id, fingerprint) | params)
        walked = next(row for row in rows if row[0] is None)
        return Stepped([(row[0], row[1], row[2]) for row in rows if row[0] is not None], walked[1], walked[3])


def _key(project_id: str, fingerprint: str) -> dict[str, Any]:
    return {"project_id": project_id, "fingerprint": fingerprint}
