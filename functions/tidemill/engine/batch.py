"""Batches: create, seal, cancel. Members come in through enqueue, with `batch_id`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tidemill.domain.errors import Fault, Invalid, InvalidTransition, NotFound, Unavailable
from tidemill.domain.jobs import Enqueued, JobSpec
from tidemill.domain.keys import compact_json
from tidemill.engine.batch_store import BatchStore
from tidemill.engine.enqueue import enqueue
from tidemill.engine.family import end_if_done
from tidemill.engine.operate import cancel
from tidemill.ports import Rolls

CANCEL_BATCH = 500
WALK = 2_000
WALKS = 20


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
    """A new batch with its first members, all or nothing; `sealed` at once ends an empty one and fires its callbacks.

    Invalid for callbacks that could not be enqueued today, such as ones for a queue that is not there.
    """
    with store.transaction():
        if faults := store.callback_faults(project_id, callbacks or {}):
            raise Invalid([Fault(("callbacks", name, field), message) for name, field, message in faults])
        store.create_batch(project_id, batch_id, name, compact_json(dict(callbacks or {})), now=now)
        results = add(store, project_id, batch_id, jobs, now=now) if jobs else []
        if sealed:
            seal(store, project_id, batch_id, now=now)
    return results


def add(store: BatchStore, project_id: str, batch_id: str, jobs: Sequence[JobSpec], *, now: datetime | None = None) -> list[Enqueued]:
    """Members for an open batch, all or nothing. InvalidTransition if it takes no more; a repeat by key still gets its answer."""
    with store.transaction():
        try:
            added = enqueue(store, project_id, [{**job, "batch_id": batch_id} for job in jobs], now=now)
        except Invalid as error:
            if any(fault.loc[-1:] != ("batch_id",) for fault in error.faults):
                raise
            _require_open(store, project_id, batch_id)
            raise
        if not jobs:
            _require_open(store, project_id, batch_id)
        return added


def _require_open(store: BatchStore, project_id: str, batch_id: str) -> None:
    batch = store.batch(project_id, batch_id)
    if batch is None:
        raise NotFound("batch", batch_id)
    if batch.status != "open":
        raise InvalidTransition(batch.status, "take jobs", kind="batch")


def seal(store: BatchStore, project_id: str, batch_id: str, *, now: datetime | None = None) -> str:
    """Closes the batch to new members; its status after that (an empty or finished one ends at once). Sealing again changes nothing."""
    with store.transaction():
        batch = store.seal_batch(project_id, batch_id, now=now)
        if batch is None:
            raise NotFound("batch", batch_id)
        end_if_done(store, batch, now=now)
        stored = store.batch(project_id, batch_id)
        return stored.status if stored else batch.status


def cancel_batch(store: BatchStore, project_id: str, batch_id: str, *, roll: Rolls, now: datetime | None = None) -> str:
    """Cancels what has not begun and asks what runs to stop; no callback fires. Its status after that. Asking again goes on with it.

    At most 500 members in this call; the scheduler goes on with the rest. Not within a transaction: each member has its own.
    """
    after = begin_cancel(store, project_id, batch_id, now=now)
    if after is not None:
        cancel_members(store, project_id, batch_id, after, roll=roll, now=now)
    return "cancelled"


def begin_cancel(store: BatchStore, project_id: str, batch_id: str, *, now: datetime | None = None) -> str | None:
    """Marks the batch as cancelled; where `cancel_members` is to go on from, None if all have had their turn."""
    found = store.cancel_batch(project_id, batch_id, now=now)
    if found is None:
        raise NotFound("batch", batch_id)
    status, after = found
    if status != "cancelled":
        raise InvalidTransition(status, "be cancelled", kind="batch")
    return after


def cancel_members(store: BatchStore, project_id: str, batch_id: str, after: str, *, roll: Rolls, now: datetime | None = None) -> int:
    """Cancels at most 500 members that are still in motion, from `after` on, and notes how far it came; how many it asked.

    A member has one turn: one that is retried by hand after the walk has passed it runs again.
    """
    asked, place = 0, after
    for _ in range(WALKS):
        found, ahead = store.unfinished_members(batch_id, after=place, walk=WALK, limit=CANCEL_BATCH - asked)
        for job_id in found:
            try:
                cancel(store, project_id, job_id, roll=roll, reason="batch_cancelled", now=now)
            except (NotFound, InvalidTransition):
                continue  # it ended meanwhile
            except Unavailable:
                store.walked(batch_id, after=place)  # it keeps moving: the next pass comes back to it
                return asked
            asked, place = asked + 1, job_id
        if ahead is None:
            store.walked(batch_id, after=None)
            return asked
        place = ahead
        if asked >= CANCEL_BATCH:
            break
    store.walked(batch_id, after=place)
    return asked


def cancelling(store: BatchStore, *, limit: int, roll: Rolls, now: datetime | None = None) -> Mapping[str, Any]:
    """The scheduler's part: goes on with cancelled batches whose members have not all had their turn."""
    counts = {"batches": 0, "members": 0}
    for project_id, batch_id, after in store.cancelling_batches(limit):
        counts["batches"] += 1
        counts["members"] += cancel_members(store, project_id, batch_id, after, roll=roll, now=now)
    return counts
