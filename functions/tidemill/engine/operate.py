"""What an operator does to one job: cancel, retry, promote, reschedule, edit, delete.

Each verb tries the guarded statement of the state it saw. If the job moved in between, it looks again; a move that the
table in domain.transitions does not have is InvalidTransition. Lock order: entry → lease → job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from tidemill.domain import transitions
from tidemill.domain.errors import InvalidTransition, NotFound, Unavailable, UniqueConflict
from tidemill.domain.jobs import Deleted, Edit
from tidemill.domain.transitions import LEASED, Event, State
from tidemill.engine.family import BATCH, CHILDREN, PATIENCE_SECS, End, after_end, count_members, settle_children
from tidemill.engine.settle import end_leased
from tidemill.ports import OperateStore, Rolls, SettleStore

LOOKS = 5


class CancelStore(OperateStore, SettleStore, Protocol):
    """What cancel needs: it may have to end a lease by force."""


def cancel(
    store: CancelStore,
    project_id: str,
    job_id: str,
    *,
    force: bool = False,
    roll: Rolls,
    reason: str = "cancelled",
    now: datetime | None = None,
) -> State:
    """The state after it: cancelled, or (leased and not `force`) still claimed or running with the cancel asked.

    A completion that arrives before the worker sees the request wins; `force` ends the lease at once and whatever the
    worker reports later is lost.
    """

    def attempt(state: State) -> State | None:
        transitions.require(state, Event.FORCE_CANCEL if force else Event.CANCEL)
        if state in (State.SCHEDULED, State.QUEUED):
            return _ended(store, job_id, lambda: store.cancel_entry(project_id, job_id, reason, now=now), now)
        if state in LEASED:
            return _cancel_leased(store, project_id, job_id, state, force=force, roll=roll, now=now)
        phase = "waiting" if state is State.PENDING else "quarantined"
        return _ended(store, job_id, lambda: store.cancel_waiting(project_id, job_id, phase, reason, now=now), now)

    return _looking(store, project_id, job_id, "cancel", now, attempt)


def retry(store: OperateStore, project_id: str, job_id: str, *, by: str | None = None, now: datetime | None = None) -> State:
    """Puts a dead job back at its first attempt: queued. UniqueConflict (nothing changed) if its key is held again."""

    def attempt(state: State) -> State | None:
        transitions.require(state, Event.RETRY)
        with store.attempt():
            holder = store.take_hold(project_id, job_id, now=now)
            if holder is not None and holder != job_id:
                raise UniqueConflict(job_id, holder)
            traits = store.retry(project_id, job_id, by=by, now=now)
            if traits is None:
                raise _Moved  # the key that was taken for it must not stay behind
            if traits & BATCH:
                counted = [(batch_id, "failed", -1) for batch_id in store.batches_of([job_id]).values()]
                count_members(store, counted, reopen=True, now=now)
            return State.QUEUED

    return _looking(store, project_id, job_id, "retry", now, attempt)


def promote(store: OperateStore, project_id: str, job_id: str, *, now: datetime | None = None) -> State:
    """Lets a pending job go, or makes a scheduled one due now; the state after it."""

    def attempt(state: State) -> State | None:
        transitions.require(state, Event.PROMOTE)
        if state is State.PENDING:
            return _seen(store, project_id, job_id, now) if store.promote(project_id, job_id, now=now) else None
        moved = store.move_entry(project_id, job_id, run_at=now or _EPOCH, only_ahead=True, now=now)
        return State.QUEUED if moved else None

    return _looking(store, project_id, job_id, "promote", now, attempt)


def reschedule(store: OperateStore, project_id: str, job_id: str, run_at: datetime, *, now: datetime | None = None) -> State:
    """Sets when a waiting job is due; a time behind the clock means now. The state after it."""

    def attempt(state: State) -> State | None:
        transitions.require(state, Event.RESCHEDULE)
        move = store.move_waiting if state is State.PENDING else store.move_entry
        return _seen(store, project_id, job_id, now) if move(project_id, job_id, run_at=run_at, now=now) else None

    return _looking(store, project_id, job_id, "reschedule", now, attempt)


def edit(store: OperateStore, project_id: str, job_id: str, change: Edit, *, now: datetime | None = None) -> State:
    """Changes payload, priority, tags or schema version of a job that is not leased and has not ended for good."""

    def attempt(state: State) -> State | None:
        if not transitions.editable(state):
            raise InvalidTransition(state.value, "edit")
        with store.attempt():
            if change.priority is not None:
                moved = (
                    store.move_entry(project_id, job_id, priority=change.priority, now=now)
                    if state in (State.SCHEDULED, State.QUEUED)
                    else store.move_waiting(
                        project_id, job_id, priority=change.priority, phases=("waiting", "dead_letter", "quarantined"), now=now
                    )
                )
                if not moved:
                    return None
            if not store.edit(project_id, job_id, change, now=now):
                raise _Moved
        return state

    return _looking(store, project_id, job_id, "edit", now, attempt)


def delete(store: OperateStore, project_id: str, job_id: str) -> None:
    """Removes a job that is not leased, with its history, logs, keys and dead letters."""

    def attempt(state: State) -> State | None:
        if not transitions.deletable(state):
            raise InvalidTransition(state.value, "delete")
        with store.transaction():
            gone = store.delete(project_id, [job_id])
            forget(store, gone)
        return state if gone else None

    _looking(store, project_id, job_id, "delete", None, attempt)


def forget(store: OperateStore, gone: Sequence[Deleted], *, patience_secs: float = PATIENCE_SECS) -> None:
    """What a deletion means to others: a child has lost its parent as if it had failed; a batch is one smaller."""
    counted = [(d.batch_id, "total", -1) for d in gone if d.batch_id]
    counted += [(d.batch_id, d.outcome, -1) for d in gone if d.batch_id and d.outcome]
    parents = [(d.job_id, d.outcome != "completed") for d in gone if d.has_children]
    cancelled = settle_children(store, parents, patience_secs=patience_secs) if parents else []
    batch_of = store.batches_of([job_id for job_id, _ in cancelled])
    # children before batches, as everywhere
    count_members(store, counted + [(batch_of[j], outcome, 1) for j, outcome in cancelled if j in batch_of])


def _ended(store: OperateStore, job_id: str, move: Callable[[], int | None], now: datetime | None) -> State | None:
    with store.transaction():
        traits = move()
        if traits is None:
            return None
        if traits & (BATCH | CHILDREN):
            after_end(store, [End(job_id, State.CANCELLED, traits)], now=now)
        return State.CANCELLED


class _Moved(Exception):
    """The job moved between two statements of one transaction: undo and look again."""


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _cancel_leased(
    store: CancelStore, project_id: str, job_id: str, state: State, *, force: bool, roll: Rolls, now: datetime | None
) -> State | None:
    with store.transaction():
        lease = store.request_cancel(project_id, job_id, now=now)
        if lease is None:
            return None
        if not force:
            return state
        return end_leased(store, store.leased([lease]), Event.FORCE_CANCEL, roll=roll, now=now).get(job_id)


def _seen(store: OperateStore, project_id: str, job_id: str, now: datetime | None) -> State:
    found = store.state(project_id, job_id, now=now)
    if found is None:
        raise NotFound("job", job_id)
    return found[0]


def _looking(
    store: OperateStore, project_id: str, job_id: str, verb: str, now: datetime | None, attempt: Callable[[State], State | None]
) -> State:
    for _ in range(LOOKS):
        try:
            done = attempt(_seen(store, project_id, job_id, now))
        except _Moved:
            continue
        if done is not None:
            return done
    raise Unavailable(f"job {job_id} kept moving while it was asked to {verb}: try again")
