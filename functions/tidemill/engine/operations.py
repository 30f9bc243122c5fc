"""Bulk operations as an operator steers them: plan, apply, abort, undo. The scheduler does the work (engine.bulk)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tidemill.domain.errors import Fault, Invalid, InvalidTransition, NotFound, PlanDrifted
from tidemill.domain.operations import DRIFT_PERCENT, UNDOABLE, Operation, drifted, plan_hash, states_of
from tidemill.engine.operation_count import tally
from tidemill.engine.operation_store import OperationStore


def plan(
    store: OperationStore,
    project_id: str,
    operation_id: str,
    action: str,
    query: Mapping[str, Any],
    *,
    by: str | None = None,
    actor_kind: str | None = None,
    now: datetime | None = None,
) -> Operation:
    """Stores what `action` would do to the jobs that match `query`; moves nothing. Invalid for a filter that means nothing."""
    states = states_of(action, query)
    if (queue := query.get("queue")) is not None and not store.has_queue(project_id, queue):
        raise Invalid([Fault(("filter", "queue"), f"queue {queue!r} does not exist in this project")])
    with store.transaction():
        found = tally(store, project_id, {**query, "state": states})
        counts = found.shown()
        values = {
            "id": operation_id,
            "action": action,
            "filter": dict(query),
            "states": states,
            "hash": plan_hash(action, query, counts),
            "estimate": found.count,
            "is_approximate": found.is_approximate,
            "counts": counts,
            "sample": found.examples,
            "by": by,
            "actor_kind": actor_kind,
        }
        store.create_operation(project_id, values, now=now)
        return seen(store, project_id, operation_id)


def apply(
    store: OperationStore,
    project_id: str,
    operation_id: str,
    *,
    allow_drift: bool = False,
    by: str | None = None,
    now: datetime | None = None,
) -> Operation:
    """Hands a plan to the scheduler. Applying again changes nothing; PlanDrifted if the match grew by more than 10 % since.

    What matches at this moment is what the operation is about: a job that comes into the filter later is not touched.
    """
    with store.transaction():
        found = seen(store, project_id, operation_id, lock=True)
        if found.status in ("applying", "completed"):
            return found
        if found.status != "planned":
            raise InvalidTransition(found.status, "be applied", kind="operation")
        count = tally(store, project_id, found.query)
        if not allow_drift and not found.is_approximate and drifted(found.estimate, count.count):
            matches = f"{'at least ' * count.is_approximate}{count.count:,}"
            raise PlanDrifted(
                f"the filter matches {matches} jobs now; the plan of {found.snapshot_at:%Y-%m-%dT%H:%M:%SZ} had {found.estimate:,}, and may"
                f" grow by {DRIFT_PERCENT} % at most: make a new plan, or apply it with allow_drift"
            )
        total = None if count.is_approximate else count.count
        store.begin_operation(operation_id, allow_drift=allow_drift, total=total, by=by, now=now)
        return seen(store, project_id, operation_id)


def abort(store: OperationStore, project_id: str, operation_id: str, *, now: datetime | None = None) -> Operation:
    """Ends an operation between two of its batches; what it has done stays done. Aborting again changes nothing.

    A queue that was to be removed takes jobs again.
    """
    with store.transaction():
        found = seen(store, project_id, operation_id, lock=True)
        if found.status == "aborted":
            return found
        if not store.end_operation(operation_id, "aborted", now=now):
            raise InvalidTransition(found.status, "be aborted", kind="operation")
        if found.queue_id is not None:
            store.open_queue(found.queue_id)
        return seen(store, project_id, operation_id)


def undo(store: OperationStore, project_id: str, operation_id: str, *, by: str | None = None, now: datetime | None = None) -> Operation:
    """Hands to the scheduler to put back what a cancel or a discard has moved, as far as it is kept. Asking again changes nothing."""
    with store.transaction():
        found = seen(store, project_id, operation_id, lock=True)
        if found.status in ("undoing", "undone"):
            return found
        if found.action not in UNDOABLE:
            raise InvalidTransition(found.status, f"be undone: only {' and '.join(UNDOABLE)} can, not {found.action}", kind="operation")
        if not store.ask_undo(operation_id, by=by, now=now):
            raise InvalidTransition(found.status, "be undone", kind="operation")
        return seen(store, project_id, operation_id)


def seen(store: OperationStore, project_id: str, operation_id: str, *, lock: bool = False) -> Operation:
    """The operation; NotFound if the project has no such one."""
    found = store.operation(project_id, operation_id, lock=lock)
    if found is None:
        raise NotFound("operation", operation_id)
    return found
