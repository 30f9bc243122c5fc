"""Undo: jobs that a cancel or a discard has moved go back to where they were, as far as they are kept."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from tidemill.domain.operations import Operation
from tidemill.domain.transitions import LEASED, State
from tidemill.engine.bulk_moves import Done
from tidemill.engine.family import BATCH, count_members
from tidemill.engine.operation_store import OperationStore


def put_back(store: OperationStore, operation: Operation, size: int, *, now: datetime | None) -> tuple[Done, bool]:
    """Puts the next jobs back, parents before their children; what was done, and whether that was all."""
    was = dict(store.affected_jobs(operation.id, after=operation.undo_position, limit=size))
    ids = list(was)
    done, values = Done(left=ids), {"operation_id": operation.id, "project_id": operation.project_id}
    if ids:
        done.take(store.move_many("withdraw_cancel_many", [i for i in ids if was[i] in LEASED], values, now=now))
        moved = done.take(store.move_many("restore_many", [i for i in done.left if was[i] != State.DEAD_LETTER], values, now=now))
        done.take(store.move_many("reopen_dead_many", [i for i in ids if was[i] == State.DEAD_LETTER], values, now=now))
        done.skips["moved_on"] += len(done.left)
        members = [one.job_id for one in moved if one.traits & BATCH]
        if members:
            counted = [(batch_id, "cancelled", -1) for batch_id in store.batches_of(members).values()]
            count_members(store, counted, reopen=True, now=now)
    over = len(ids) < size
    skips = +(Counter(operation.undo_skips) + done.skips)
    store.undone_operation(operation.id, position=ids[-1] if ids else None, undone=done.affected, skips=skips, over=over, now=now)
    return done, over
