"""Prune: what has been over for long enough goes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from tidemill.domain.sessions import AUDIT_KEPT_DAYS
from tidemill.engine.number_store import NumberStore
from tidemill.engine.operation_store import OperationStore
from tidemill.ports import SweepStore

STALE_WORKER_MS = 86_400_000
BATCH_KEPT_MS = 86_400_000
OPERATION_KEPT_MS = 30 * 86_400_000
PARTITION_KEPT_MS = 86_400_000
NUMBERS = 5_000


class PruneStore(SweepStore, NumberStore, OperationStore, Protocol):
    """All that prune removes from."""


def prune(store: PruneStore, *, limit: int = 1_000, now: datetime | None = None) -> Mapping[str, int]:
    """Removes at most `limit` of each kind and returns the counts: jobs, batches, unique keys, workers, heartbeats, partitions that
    were idle for a day, numbers, refresh tokens, operations that ended 30 days ago with their records, and notes of the audit log
    after 400 days.

    A job's age counts from its end, per final state; a job that has not ended is never removed. A batch goes with the last of
    its jobs, but not within a day of its end.
    """
    ended = sorted(job_id for _, job_id in store.prunable(limit, now=now))
    jobs = store.prune(ended, now=now) if ended else 0
    batches = store.prune_batches(BATCH_KEPT_MS, limit, now=now)
    workers, heartbeats = store.prune_workers(STALE_WORKER_MS, limit, now=now)
    keys = store.prune_holds(limit, now=now)
    partitions = store.prune_partitions(PARTITION_KEPT_MS, limit, now=now)
    numbers = store.prune_numbers(NUMBERS, now=now)
    sessions = store.prune_sessions(limit, now=now)
    operations, records = store.prune_operations(OPERATION_KEPT_MS, 10 * limit, now=now)
    notes = store.prune_audit(AUDIT_KEPT_DAYS, 10 * limit)
    return {
        "jobs": jobs,
        "batches": batches,
        "unique_keys": keys,
        "workers": workers,
        "heartbeats": heartbeats,
        "partitions": partitions,
        "numbers": numbers,
        "sessions": sessions,
        "operations": operations,
        "operation_jobs": records,
        "audit_notes": notes,
    }
