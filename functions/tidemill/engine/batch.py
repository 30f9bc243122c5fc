"""Batches: create, seal, cancel. Members come in through enqueue, with `batch_id`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from tidemill.domain.errors import InvalidTransition, NotFound, TidemillError
from tidemill.domain.jobs import Enqueued, JobSpec
from tidemill.domain.keys import compact_json
from tidemill.engine.enqueue import enqueue
from tidemill.engine.family import end_if_done
from tidemill.engine.operate import CancelStore, cancel
from tidemill.ports import EnqueueStore, Rolls

CANCEL_BATCH = 500
_NIL = "00000000-0000-0000-0000-000000000000"


class BatchStore(CancelStore, EnqueueStore, Protocol):
    """What a batch's life needs."""


def create(
    store: BatchStore,
    project_id: str,
    batch_id: str,
    *,
    name: str = "",
    callbacks: Mapping[str, JobSpec] | None = None,
    jobs: Sequence[JobSpec] = (),
    sealed: bool = False,
    now: datetime | None = None,
) -> list[Enqueued]:
    """A new batch with its first members, all or nothing; `sealed` at once ends an empty one and fires its callbacks."""
    with store.transaction():
        store.create_batch(project_id, batch_id, name, compact_json(dict(callbacks or {})), now=now)
        results = add(store, project_id, batch_id, jobs, now=now) if jobs else []
        if sealed:
            seal(store, project_id, batch_id, now=now)
    return results


def add(store: BatchStore, project_id: str, batch_id: str, jobs: Sequence[JobSpec], *, now: datetime | None = None) -> list[Enqueued]:
    """Members for an open batch. InvalidTransition if it takes no more."""
    with store.transaction():
        status = store.batch_status(project_id, batch_id)
        if status is None:
            raise NotFound("batch", batch_id)
        if status != "open":
            raise InvalidTransition(f"{status} batch", "take jobs")
        return enqueue(store, project_id, [{**job, "batch_id": batch_id} for job in jobs], now=now)


def seal(store: BatchStore, project_id: str, batch_id: str, *, now: datetime | None = None) -> str:
    """Closes the batch to new members; its status after that (an empty or finished one ends at once). Sealing again changes nothing."""
    with store.transaction():
        batch = store.seal_batch(project_id, batch_id, now=now)
        if batch is None:
            raise NotFound("batch", batch_id)
        end_if_done(store, batch, now=now)
        return store.batch_status(project_id, batch_id) or batch.status


def cancel_batch(store: BatchStore, project_id: str, batch_id: str, *, roll: Rolls, now: datetime | None = None) -> str:
    """Cancels what has not begun and asks what runs to stop; no callback fires. Its status after that.

    At most 500 members in this call; the scheduler goes on with the rest.
    """
    status = store.cancel_batch(project_id, batch_id, now=now)
    if status is None:
        raise NotFound("batch", batch_id)
    if status != "cancelled":
        raise InvalidTransition(f"{status} batch", "cancel")
    cancel_members(store, project_id, batch_id, roll=roll, now=now)
    return status


def cancel_members(store: BatchStore, project_id: str, batch_id: str, *, roll: Rolls, now: datetime | None = None) -> int:
    """Cancels at most 500 members that are still in motion; how many it asked."""
    asked = 0
    for _, job_id in store.unfinished_members(batch_id, after=_NIL, limit=CANCEL_BATCH):
        try:
            cancel(store, project_id, job_id, roll=roll, reason="batch_cancelled", now=now)
            asked += 1
        except TidemillError:
            continue  # it ended meanwhile, or keeps moving: the next pass looks again
    return asked


def cancelling(store: BatchStore, *, limit: int, roll: Rolls, now: datetime | None = None) -> Mapping[str, Any]:
    """The scheduler's part: goes on with cancelled batches that still have members in motion."""
    counts = {"batches": 0, "members": 0}
    for project_id, batch_id in store.cancelling_batches(limit, now=now):
        counts["batches"] += 1
        counts["members"] += cancel_members(store, project_id, batch_id, roll=roll, now=now)
    return counts
