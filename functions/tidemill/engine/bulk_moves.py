"""One batch of a bulk operation: the set-based moves behind each action, with what they mean to children and batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tidemill.domain.operations import Operation
from tidemill.domain.transitions import State
from tidemill.engine.family import BATCH, CHILDREN, End, after_end, count_members
from tidemill.engine.operate import forget
from tidemill.engine.operation_store import OperationStore, Outcome

PATIENCE_SECS: Final = 0.1
"""For the families of one batch; what is left of them is the sweep's (engine.dependants)."""

CHANGING: Final = frozenset({"state", "tag", "any_tag", "priority", "worker_id", "error_class", "error_group"})
"""Conditions that a job may begin to meet in the course of its life."""


@dataclass(slots=True)
class Done:
    """What a batch did: members moved, members left alone by reason, and jobs that somebody else held."""

    affected: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)

    def take(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Counts them; those that moved. One that came into the filter later is no member and counts nowhere."""
        moved = [one for one in outcomes if one.outcome == "moved"]
        self.affected += len(moved)
        self.skips.update(one.outcome for one in outcomes if one.outcome not in ("moved", "later"))
        answered = {one.job_id for one in outcomes}
        self.left = [job_id for job_id in self.left if job_id not in answered]
        return moved


def move(store: OperationStore, operation: Operation, job_ids: Sequence[str], *, now: datetime | None) -> Done:
    """Does the operation's action to these jobs, each at most once, within the caller's transaction."""
    done = Done(left=sorted(job_ids))
    if done.left:
        _MOVES[operation.action](store, operation, done, now)
    return done


def forgets_nobody(operation: Operation) -> bool:
    """True if the filter holds every live job that it ever held, so that one which changes is still a member."""
    return operation.action == "cancel" and not CHANGING & set(operation.filter)


def _retry(store: OperationStore, operation: Operation, done: Done, now: datetime | None) -> None:
    values = _values(operation, by=operation.applied_by)
    moved = done.take(store.move_many("retry_many", done.left, values, now=now))
    members = [one.job_id for one in moved if one.traits & BATCH]
    if members:
        counted = [(batch_id, "failed", -1) for batch_id in store.batches_of(members).values()]
        count_members(store, counted, reopen=True, now=now)


def _cancel(store: OperationStore, operation: Operation, done: Done, now: datetime | None) -> None:
    states = set(operation.states)
    values = _values(operation, operation_id=operation.id, wide=forgets_nobody(operation), reason="cancelled")
    due = states & {"queued", "scheduled", "retrying"} == {"queued"}
    ended = done.take(store.move_many("cancel_entries_many", done.left, values | {"due_since": due}, now=now))
    ended += done.take(store.move_many("cancel_waiting_many", done.left, values | {"phases": ["waiting", "quarantined"]}, now=now))
    if done.left and states & {"claimed", "running"}:
        begun = "claimed" not in states
        done.take(store.move_many("request_cancel_many", done.left, values | {"begun_since": begun}, now=now))
    _ended(store, ended, now)


def _discard(store: OperationStore, operation: Operation, done: Done, now: datetime | None) -> None:
    values = _values(operation, operation_id=operation.id, wide=False, reason="discarded", by=operation.applied_by)
    done.take(store.move_many("discard_dead_many", done.left, values, now=now))
    _ended(store, done.take(store.move_many("cancel_waiting_many", done.left, values | {"phases": ["quarantined"]}, now=now)), now)


def _promote(store: OperationStore, operation: Operation, done: Done, now: datetime | None) -> None:
    done.take(store.move_many("promote_many", done.left, _values(operation), now=now))
    done.take(store.move_many("due_many", done.left, _values(operation), now=now))


def _delete(store: OperationStore, operation: Operation, done: Done, _: datetime | None) -> None:
    assert operation.applied_at is not None
    fit = store.unchanged(operation.project_id, done.left, operation.applied_at)
    done.left = fit
    gone = store.delete(operation.project_id, fit)
    forget(store, gone, patience_secs=PATIENCE_SECS)
    done.take([Outcome(one.job_id, "moved", 0) for one in gone])


_MOVES: Final[Mapping[str, Callable[[OperationStore, Operation, Done, datetime | None], None]]] = {
    "retry": _retry,
    "cancel": _cancel,
    "discard": _discard,
    "promote": _promote,
    "delete": _delete,
}


def _values(operation: Operation, **more: Any) -> dict[str, Any]:
    return {"project_id": operation.project_id, "since": operation.applied_at, **more}


def _ended(store: OperationStore, moved: Sequence[Outcome], now: datetime | None) -> None:
    ends = [End(one.job_id, State.CANCELLED, one.traits) for one in moved if one.traits & (BATCH | CHILDREN)]
    if ends:
        after_end(store, ends, now=now, patience_secs=PATIENCE_SECS)
