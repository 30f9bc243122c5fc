"""Rate classes and standing limits."""

from __future__ import annotations

from datetime import datetime

from psycopg.errors import LockNotAvailable

from tidemill.domain.admission import RateClass, StandingLimit
from tidemill.store.reads import Reads, Row
from tidemill.store.statements import sql

PATIENCE_MS = "300"


class Limits(Reads):
    """Implements engine.limits.LimitStore, and lists."""

    def hold_claims(self) -> bool:
        try:
            with self._conn.transaction():  # a savepoint: the lock stays, a failure leaves the transaction as it was
                self._row("limits/patience", {"lock_timeout_ms": PATIENCE_MS})
                self._conn.execute(sql("limits/hold_claims"))
        except LockNotAvailable:
            return False
        return True

    def count_queue(self, project_id: str, queue: str) -> int:
        row = self._row("limits/count_queue", {"project_id": project_id, "queue": queue})
        return int(row[0]) if row else 0

    def count_type(self, project_id: str, job_type: str) -> int:
        row = self._row("limits/count_type", {"project_id": project_id, "job_type": job_type})
        return int(row[0]) if row else 0

    def put_limit(self, project_id: str, limit: StandingLimit) -> bool | None:
        row = self._row("limits/put", {"project_id": project_id, **limit._asdict()})
        return bool(row[0]) if row else None

    def delete_limit(self, project_id: str, name: str) -> tuple[str | None] | None:
        row = self._row("limits/delete", {"project_id": project_id, "name": name})
        return (row[0],) if row else None

    def free_type(self, project_id: str, job_type: str) -> None:
        self._row("limits/free", {"project_id": project_id, "job_type": job_type})

    def relane(self, project_id: str | None, limit: int, *, look: int, now: datetime | None) -> tuple[int, int]:
        row = self._row("limits/relane", {"project_id": project_id, "limit": limit, "look": look, "now": now})
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def put_rate_class(self, project_id: str, rate: RateClass, *, now: datetime | None) -> bool:
        row = self._row("rates/put", {"project_id": project_id, "now": now, **rate._asdict()})
        return bool(row and row[0])

    def delete_rate_class(self, project_id: str, name: str) -> bool:
        return self._row("rates/delete", {"project_id": project_id, "name": name}) is not None

    def look_again(self, project_id: str, rate_class: str, *, now: datetime | None) -> None:
        self._row("rates/look_again", {"project_id": project_id, "name": rate_class, "now": now})

    def limits(self, project_id: str, *, name: str | None = None, after: str | None = None, limit: int = 1) -> list[Row]:
        """The project's standing limits by name, or the one of this name."""
        return self._dicts("limits/list", {"project_id": project_id, "name": name, "after": after, "limit": limit})

    def rate_classes(self, project_id: str, *, name: str | None = None, after: str | None = None, limit: int = 1) -> list[Row]:
        """The project's rate classes by name, or the one of this name."""
        return self._dicts("rates/list", {"project_id": project_id, "name": name, "after": after, "limit": limit})
