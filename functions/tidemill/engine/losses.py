"""Losses: lost leases and crashes are counted by fingerprint; one that reaches its queue's threshold is quarantined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Protocol

from tidemill.domain.losses import Counted, Loss
from tidemill.domain.transitions import State
from tidemill.engine.family import End, after_end
from tidemill.ports import FamilyStore
from tidemill.ports.losses import LossStore

WINDOW_MS: Final = 86_400_000
AT_ONCE: Final = 1_000


class IsolateStore(FamilyStore, LossStore, Protocol):
    """Quarantines, and tells the families of what it sets aside."""


def count_losses(store: LossStore, losses: Sequence[Loss], *, now: datetime | None = None) -> dict[str, Counted]:
    """Job id → what its fingerprint has come to within 24 hours, this loss included. Within a transaction, before the jobs are settled."""
    ordered = sorted(losses)
    return {c.job_id: c for c in store.count_losses(ordered, WINDOW_MS, now=now)} if ordered else {}


def isolate(store: IsolateStore, counted: Iterable[Counted], *, now: datetime | None = None) -> None:
    """Quarantines the fingerprints that are over the threshold, and sets aside what it finds among the next 1,000 waiting jobs.

    The rest is the sweep's (engine.quarantine); until then the claim holds it back.
    """
    over = sorted({(c.project_id, c.fingerprint) for c in counted if c.is_over and not c.is_quarantined})
    for project_id, fingerprint in over:
        if store.impose_quarantine(project_id, fingerprint, now=now):
            set_aside(store, project_id, fingerprint, AT_ONCE, now=now)


def set_aside(store: IsolateStore, project_id: str, fingerprint: str, limit: int, *, now: datetime | None = None) -> int:
    """Sets aside what bears the fingerprint among the next `limit` waiting jobs, and tells their children; how many that were."""
    aside = store.sweep_quarantined(project_id, fingerprint, limit, now=now)
    if aside:
        after_end(store, [End(job_id, State.QUARANTINED, traits) for job_id, traits in aside], now=now)
    return len(aside)
