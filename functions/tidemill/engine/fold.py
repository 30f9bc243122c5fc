"""Fold and sample: the per-minute counters of every queue, read from what jobs leave behind, and how much stands in the queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from tidemill.domain import counting
from tidemill.domain.counting import Mark
from tidemill.engine.number_store import Counted, NumberStore

BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
QUEUES: Final = 20
MOST: Final = 250_000
"""Of which no more is counted of one kind in one queue."""


class Folding:
    """The fold of one pass. Any number may run at once: one of them has the counters, the others do nothing."""

    def __init__(self, store: NumberStore, *, now: datetime | None = None) -> None:
        self._store = store
        self._now = now
        self._mark: Mark | None = None

    def mark(self) -> Mapping[str, int]:
        """Notes which transactions there are, as early in the pass as can be: by the fold they have ended, as a rule."""
        self._mark = self._store.mark_horizon(now=self._now)
        return {}

    def step(self) -> Mapping[str, int]:
        """Counts at most one minute; `more` if another one waits. Counts, progress and nothing else are one transaction."""
        with self._store.transaction():
            found = self._store.counter_progress(now=self._now)
            if found is None:
                return {}
            progress, oldest, now = found
            safe, waits_for = counting.settled(progress, self._mark, oldest)
            moved = progress = replace(progress, mark=waits_for)
            counted, late, more = Counted(), 0, False
            if progress.folded_until is None:
                moved, more = counting.skipped_to(progress, self._store.next_countable(BEGINNING), safe, now), True
            elif step := counting.next_step(progress, safe, now):
                moved, more = step.after, step.more
                if step.kind == "recount":
                    late = self._store.recount_counters(step.since, step.until)
                else:
                    counted = self._store.fold_counters(step.since, step.until)
                    if not any(counted) and more:
                        moved = counting.skipped_to(moved, self._store.next_countable(step.until), safe, now)
            if moved != found[0]:
                self._store.keep_progress(moved)
        return {**counted._asdict(), "late": late, "more": int(more)}


def sample(store: NumberStore, *, queues: int = QUEUES, now: datetime | None = None) -> Mapping[str, int]:
    """Writes this minute's sample of at most `queues` queues that have none; `more` if there may be others."""
    written = store.sample_queues(queues, MOST, now=now)
    return {"samples": written, "more": int(written >= queues)}
