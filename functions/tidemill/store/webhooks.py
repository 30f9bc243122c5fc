"""Error webhooks: settings, secrets, news and calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tidemill.domain.webhooks import SECRET_OVERLAP, Hook, Told
from tidemill.engine.webhook_store import Due, Ending, Sample
from tidemill.store.base import array
from tidemill.store.reads import Reads, Row
from tidemill.store.statements import sql

WAITING: Final = 1_000
"""Of which no more are counted."""


class Webhooks(Reads):
    """Implements engine.webhook_store.WebhookStore, and what the API shows and sets."""

    def webhook(self, project_id: str) -> Row | None:
        """The project's webhook, without secrets; None if it has none."""
        found = self._dicts("webhooks/read", {"project_id": project_id, "most": WAITING})
        return found[0] if found else None

    def webhook_standing(self, project_id: str) -> Row | None:
        """Whether it is paused and since when it fails; None if the project has none."""
        found = self._dicts("webhooks/standing", {"project_id": project_id})
        return found[0] if found else None

    def put_webhook(
        self, project_id: str, url: str, events: Sequence[str], queues: Sequence[str] | None, *, is_paused: bool | None
    ) -> bool:
        """True if the project had none."""
        params = {"url": url, "events": list(events), "queues": list(queues) if queues is not None else None, "is_paused": is_paused}
        row = self._row("webhooks/put", {"project_id": project_id, **params})
        assert row is not None
        return bool(row[0])

    def begin_webhook(self, project_id: str) -> None:
        """What a project's first webhook needs: the system's own project, and no news of one that was deleted."""
        self._row("webhooks/found_system", {})
        self._conn.execute(sql("webhooks/forget_news"), {"project_id": project_id})

    def delete_webhook(self, project_id: str) -> bool:
        """False if there was none."""
        return self._row("webhooks/delete", {"project_id": project_id}) is not None

    def add_webhook_secret(self, secret_id: str, project_id: str, secret: bytes) -> None:
        """A new secret; the one before signs on beside it for a day."""
        params = {"id": secret_id, "project_id": project_id, "secret": secret, "overlap_secs": int(SECRET_OVERLAP.total_seconds())}
        self._row("webhooks/add_secret", params)

    def ask_webhook_test(self, project_id: str, key: str) -> datetime:
        """When it was asked."""
        row = self._row("webhooks/ask_test", {"project_id": project_id, "key": key})
        assert row is not None
        at: datetime = row[0]
        return at

    def webhook_deliveries(self, project_id: str, *, before: str | None, limit: int) -> list[Row]:
        """What was told, the newest first."""
        return self._dicts("webhooks/deliveries", {"project_id": project_id, "before": before, "limit": limit})

    def due_webhook(self, *, now: datetime | None) -> Due | None:
        row = self._row("webhooks/due", {"now": now})
        return Due._make(row) if row else None

    def take_news(self, due: Due, again_secs: int, limit: int) -> list[Told]:
        params = {"project_id": due.project_id, "event": due.event, "again_secs": again_secs, "limit": limit, "now": due.now}
        return [Told._make(row) for row in self._rows("webhooks/take", params)]

    def samples(self, project_id: str, kinds: Sequence[tuple[str, str, str]]) -> list[Sample]:
        groups, queue_ids, job_types = (list(values) for values in zip(*kinds, strict=True))
        params = {"project_id": project_id, "groups": groups, "queue_ids": queue_ids, "job_types": job_types}
        return [Sample._make(row) for row in self._rows("webhooks/samples", params)]

    def note_call(self, due: Due, call_id: str, things: int, quiet_secs: int) -> None:
        params = {"id": call_id, "project_id": due.project_id, "event": due.event, "things": things}
        self._conn.execute(sql("webhooks/tell"), {**params, "quiet_secs": quiet_secs, "now": due.now})

    def hooks(self, call_ids: Sequence[str], *, now: datetime | None) -> tuple[dict[str, Hook], datetime | None]:
        rows = self._rows("webhooks/hooks", {"call_ids": array(call_ids), "now": now})
        return {row[0]: Hook(*row[1:5]) for row in rows}, rows[0][5] if rows else None

    def note_ends(self, ends: Sequence[Ending], *, now: datetime | None) -> int:
        ordered = sorted(ends)
        params = {
            "ids": [end.id for end in ordered],
            "statuses": [end.status for end in ordered],
            "errors": [end.error for end in ordered],
            "ends": [end.ends for end in ordered],
        }
        row = self._row("webhooks/reported", {**params, "now": now})
        return int(row[0]) if row else 0

    def stranded_calls(self, limit: int, *, now: datetime | None) -> list[str]:
        return [row[0] for row in self._rows("webhooks/stranded", {"limit": limit, "now": now})]

    def prune_webhooks(self, forgotten_secs: int, kept_secs: int, limit: int, *, now: datetime | None) -> int:
        row = self._row("webhooks/prune", {"forgotten_secs": forgotten_secs, "kept_secs": kept_secs, "limit": limit, "now": now})
        return int(row[0]) if row else 0
