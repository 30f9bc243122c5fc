"""Reports of a running job: progress, checkpoint, output, logs, children. With a lost lease each writes nothing and raises LeaseLost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

from tidemill.domain import limits
from tidemill.domain.errors import LeaseLost
from tidemill.domain.jobs import Enqueued, JobSpec, Lease, LogLine, ParentResult
from tidemill.engine.enqueue import enqueue
from tidemill.ports import EnqueueStore, ReportStore

NIL: Final = "00000000-0000-0000-0000-000000000000"
PARENTS_BYTES: Final = 3 * 1024 * 1024


class ChildStore(EnqueueStore, ReportStore, Protocol):
    """Creates jobs under a lease."""


def progress(
    store: ReportStore, lease: Lease, current: int, total: int | None = None, message: str | None = None, *, now: datetime | None = None
) -> None:
    """Stores how far the job is; the last report stays."""
    if not store.progress(lease, current, total, message, now=now):
        raise LeaseLost(lease.job_id)


def checkpoint(store: ReportStore, lease: Lease, data_json: str, cursor: str | None = None, *, now: datetime | None = None) -> None:
    """Stores what the next attempt starts from."""
    if not store.checkpoint(lease, data_json, cursor, now=now):
        raise LeaseLost(lease.job_id)


def output(store: ReportStore, lease: Lease, data_json: str, *, now: datetime | None = None) -> None:
    """Stores a partial result; the last one stays."""
    if not store.output(lease, data_json, now=now):
        raise LeaseLost(lease.job_id)


def logs(store: ReportStore, lease: Lease, lines: Sequence[LogLine]) -> int:
    """Stores log lines in order and returns how many; a job keeps 10,000, later ones are dropped."""
    stored = store.logs(lease, lines, keep=limits.LOG_LINES_KEPT)
    if stored is None:
        raise LeaseLost(lease.job_id)
    return stored


def parents(store: ReportStore, lease: Lease, *, after: str = NIL, limit: int = limits.PAGE_ROWS[1]) -> list[ParentResult]:
    """The next of the job's parents behind an id: at most `limit`, and 3 MB of results; empty at the end."""
    found = store.parents(lease, after=after, limit=limit, size_bytes=PARENTS_BYTES)
    if found is None:
        raise LeaseLost(lease.job_id)
    return found


def all_parents(store: ReportStore, lease: Lease) -> list[ParentResult]:
    """All of them."""
    found: list[ParentResult] = []
    while part := parents(store, lease, after=found[-1].job_id if found else NIL):
        found += part
    return found


def children(store: ChildStore, project_id: str, lease: Lease, jobs: Sequence[JobSpec], *, now: datetime | None = None) -> list[Enqueued]:
    """Enqueues jobs that stand or fall with the lease; they carry its trace unless they bring their own."""
    with store.transaction():
        trace = store.hold_lease(project_id, lease)
        if trace is None:
            raise LeaseLost(lease.job_id)
        carried = {k: v for k, v in zip(("traceparent", "tracestate"), trace, strict=True) if v is not None}
        return enqueue(store, project_id, [{**carried, **job} for job in jobs], now=now)
