"""Tick: one scheduler pass, phase by phase, each bounded, in its own transaction, and isolated from the others' faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from tidemill.domain.errors import TidemillError
from tidemill.domain.jobs import PhaseReport
from tidemill.engine.batch import cancelling
from tidemill.engine.batch_store import BatchStore, DependantStore
from tidemill.engine.bulk import Bulk
from tidemill.engine.dead_letters import ErrorGroupStore, fold
from tidemill.engine.dependants import sweep
from tidemill.engine.fire import Firing
from tidemill.engine.fold import Folding, sample
from tidemill.engine.limits import LimitStore, relane
from tidemill.engine.number_store import NumberStore
from tidemill.engine.operation_store import OperationStore
from tidemill.engine.promote import promote_due
from tidemill.engine.prune import prune
from tidemill.engine.publish import Tell, publish
from tidemill.engine.quarantine import sweep as sweep_quarantine
from tidemill.engine.quarantine_store import QuarantineStore
from tidemill.engine.reap import reap
from tidemill.engine.schedule_store import ScheduleStore
from tidemill.engine.signing import SigningKeyStore, tend
from tidemill.engine.webhook_store import WebhookStore
from tidemill.engine.webhooks import tell as tell_webhooks
from tidemill.ports import Rolls, SweepStore

BATCH = 500
BULK_SECS = 2.0
"""For how long bulk operations keep the other phases from their next turn."""
Clock = Callable[[], float]


class TickStore(
    SweepStore,
    ScheduleStore,
    BatchStore,
    DependantStore,
    ErrorGroupStore,
    LimitStore,
    NumberStore,
    OperationStore,
    QuarantineStore,
    SigningKeyStore,
    WebhookStore,
    Protocol,
):
    """All that a pass touches."""


def tick(
    store: TickStore, *, roll: Rolls, clock: Clock, budget_ms: int = 20_000, now: datetime | None = None, tell: Tell | None = None
) -> list[PhaseReport]:
    """What each phase did. A phase repeats while it finds a full batch and the budget lasts; `backlog` says that more is left.
    While bulk operations have work the others have their turn every two seconds.

    Any number of passes may run at once. A phase that fails is reported by the kind of its error and the next one runs.
    `clock` is a monotonic clock in seconds, only for the budget. `tell`: where the figures go, once a minute (None: nowhere).
    """
    deadline = clock() + budget_ms / 1000
    reports = _passed(store, roll, clock, deadline, now, tell)
    while any(report.backlog for report in reports if report.name == "operations") and clock() < deadline:
        reports = [_joined(*pair) for pair in zip(reports, _passed(store, roll, clock, deadline, now, tell), strict=True)]
    return reports


def _passed(store: TickStore, roll: Rolls, clock: Clock, deadline: float, now: datetime | None, tell: Tell | None) -> list[PhaseReport]:
    folding = Folding(store, now=now)
    phases: list[tuple[str, Callable[[], Mapping[str, int]], str | None]] = [
        ("promote", lambda: promote_due(store, now=now), None),
        ("fire", Firing(store, roll=roll, now=now).step, "more"),
        ("reap", lambda: _reaped(store, roll, now), "expired"),
        ("settle", lambda: sweep(store, now=now), None),
        ("quarantine", lambda: sweep_quarantine(store, now=now), "more"),
        ("batches", lambda: cancelling(store, limit=10, roll=roll, now=now), "members"),
        ("operations", Bulk(store, clock=clock, now=now).step, "more"),
        ("errors", lambda: fold(store, limit=BATCH, now=now), "folded"),
        ("webhooks", lambda: tell_webhooks(store, limit=BATCH, now=now), "more"),
        ("relane", lambda: relane(store, limit=BATCH, now=now), "more"),
        ("fold", folding.step, "more"),
        ("sample", lambda: sample(store, now=now), "more"),
        ("prune", lambda: prune(store, limit=BATCH, now=now), "jobs"),
        ("keys", lambda: tend(store, now=now), None),
    ]
    if tell is not None:
        phases.append(("publish", lambda: publish(store, tell, now=now), None))
    _run("mark", folding.mark, None, clock, deadline)  # without it the fold counts a little later
    reports = []
    for name, phase, unit in phases:
        ends = min(deadline, clock() + BULK_SECS) if name == "operations" else deadline
        reports.append(_run(name, phase, unit, clock, ends))
    return reports


def _joined(first: PhaseReport, second: PhaseReport) -> PhaseReport:
    counts = {key: first.counts.get(key, 0) + second.counts.get(key, 0) for key in {**first.counts, **second.counts}}
    return PhaseReport(first.name, counts, second.error or first.error, first.duration_ms + second.duration_ms, second.backlog)


def _reaped(store: SweepStore, roll: Rolls, now: datetime | None) -> Mapping[str, int]:
    done = reap(store, limit=BATCH, roll=roll, now=now)
    return {
        "expired": done.expired,
        "retried": done.retried,
        "dead": done.dead,
        "cancelled": done.cancelled,
        "quarantined": done.quarantined,
    }


def _run(name: str, phase: Callable[[], Mapping[str, int]], unit: str | None, clock: Clock, deadline: float) -> PhaseReport:
    began, total = clock(), dict[str, int]()
    report = PhaseReport(name, total)
    try:
        while True:
            counts = dict(phase())
            more = counts.pop("more", 0)
            for key, value in counts.items():
                total[key] = total.get(key, 0) + value
            report.backlog = more > 0 if unit == "more" else unit is not None and counts[unit] >= BATCH
            if not report.backlog or clock() >= deadline:
                break
    except TidemillError as error:
        report.error = error.code
    except Exception as error:  # noqa: BLE001 - one broken phase must not stop the others
        report.error = type(error).__name__
    report.duration_ms = int((clock() - began) * 1000)
    return report
