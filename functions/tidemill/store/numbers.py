"""Counters, samples and latencies: folded by the scheduler, read by the statistics."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tidemill.domain.counting import Mark, Progress, least_id
from tidemill.domain.figures import Figures
from tidemill.engine.number_store import Counted
from tidemill.store.base import Adapter
from tidemill.store.statements import sql

MINUTES_KEPT: Final = timedelta(hours=48)
HOURS_KEPT: Final = timedelta(days=90)
LEASES: Final = 250_000
WORKERS: Final = 10_000


class Numbers(Adapter):
    """Implements engine.number_store.NumberStore."""

    def mark_horizon(self, *, now: datetime | None) -> Mark:
        row = self._row("numbers/horizon", {"now": now})
        assert row is not None
        return Mark(row[0], int(row[1]))

    def counter_progress(self, *, now: datetime | None) -> tuple[Progress, int, datetime] | None:
        row = self._row("numbers/state", {"now": now})
        if row is None:
            return None
        mark = Mark(row[2], int(row[3])) if row[2] is not None else None
        return Progress(row[0], row[1], mark), int(row[4]), row[5]

    def keep_progress(self, progress: Progress) -> None:
        mark = progress.mark
        params = {
            "folded_until": progress.folded_until,
            "settled_until": progress.settled_until,
            "marked_at": mark.at if mark else None,
            "marked_xid": str(mark.xid) if mark else None,
        }
        self._conn.execute(sql("numbers/keep_state"), params)

    def next_countable(self, since: datetime) -> datetime | None:
        row = self._row("numbers/next_event", {"since": since, "since_id": least_id(since)})
        return row[0] if row else None

    def fold_counters(self, since: datetime, until: datetime) -> Counted:
        row = self._row("numbers/fold", _stretch(since, until))
        return Counted(*row) if row else Counted()

    def recount_counters(self, since: datetime, until: datetime) -> int:
        row = self._row("numbers/recount", _stretch(since, until))
        return int(row[0]) if row else 0

    def sample_queues(self, queues: int, most: int, *, now: datetime | None) -> int:
        row = self._row("numbers/sample", {"limit": queues, "most": most, "now": now})
        return int(row[0]) if row else 0

    def take_figures(self, *, now: datetime | None) -> Figures | None:
        row = self._row("numbers/publish", {"leases": LEASES, "workers": WORKERS, "now": now})
        return Figures(*row) if row else None

    def prune_numbers(self, limit: int, *, now: datetime | None) -> int:
        kept = {"minutes_kept": MINUTES_KEPT, "samples_kept": MINUTES_KEPT, "latencies_kept": MINUTES_KEPT, "hours_kept": HOURS_KEPT}
        row = self._row("numbers/prune", {**kept, "limit": limit, "now": now})
        return int(row[0]) if row else 0


def _stretch(since: datetime, until: datetime) -> dict[str, datetime | str]:
    return {"since": since, "until": until, "since_id": least_id(since), "until_id": least_id(until)}
