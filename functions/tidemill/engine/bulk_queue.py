"""Removing a queue: what is in it is deleted, what runs is asked to stop, and then the queue itself goes."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from tidemill.domain.errors import NotFound
from tidemill.domain.operations import REMOVE_QUEUE, Operation, plan_hash
from tidemill.domain.transitions import State
from tidemill.engine.bulk_moves import PATIENCE_SECS, Done
from tidemill.engine.operate import forget
from tidemill.engine.operation_count import tally
from tidemill.engine.operation_store import OperationStore
from tidemill.engine.operations import seen


def empty_queue(store: OperationStore, operation: Operation, size: int, *, now: datetime | None) -> tuple[Done, bool]:
    """Deletes the next jobs of the closed queue; what was done, and whether the queue has gone."""
    assert operation.queue_id is not None
    done, over = Done(), False
    ids = store.queue_jobs(operation.queue_id, size)
    if ids:
        gone = store.delete(operation.project_id, sorted(ids))
        forget(store, gone, patience_secs=PATIENCE_SECS)
        done.affected = len(gone)
    elif not store.ask_queue_to_stop(operation.queue_id, size, now=now):
        over = store.remove_queue(operation.queue_id, operation.id)
    skips = Counter(operation.skips)
    store.moved_operation(operation.id, position=None, is_walked=False, again=(), affected=done.affected, skips=skips)
    if over:
        store.end_operation(operation.id, "completed", now=now)
    return done, over


def plan_removal(
    store: OperationStore,
    project_id: str,
    operation_id: str,
    name: str,
    *,
    by: str | None,
    actor_kind: str | None,
    now: datetime | None = None,
) -> Operation:
    """Closes the queue to new jobs, and hands to the scheduler to empty and remove it."""
    query = {"queue": name}
    with store.transaction():
        closed = store.close_queue(project_id, name)
        if closed is None:
            raise NotFound("queue", name)
        found = tally(store, project_id, {**query, "state": [state.value for state in State]})
        counts = found.shown()
        values = {
            "id": operation_id,
            "action": REMOVE_QUEUE,
            "filter": query,
            "states": [state.value for state in State],
            "hash": plan_hash(REMOVE_QUEUE, query, counts),
            "estimate": found.count,
            "is_approximate": found.is_approximate,
            "counts": counts,
            "sample": found.examples,
            "by": by,
            "actor_kind": actor_kind,
            "queue_id": closed[0],
        }
        store.create_operation(project_id, values, now=now)
        total = None if found.is_approximate else found.count
        store.begin_operation(operation_id, allow_drift=True, total=total, by=by, closes=True, now=now)
        return seen(store, project_id, operation_id)
